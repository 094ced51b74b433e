package main

import (
	"context"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/listen"
)

// started runs the command on free ports until the spec ends.
func started(args ...string) (l *listen.Listeners, stop func() error) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, over := make(chan *listen.Listeners, 1), make(chan error, 1)
	go func() {
		over <- run(ctx, append([]string{"-http", "127.0.0.1:0", "-grpc", "127.0.0.1:0", "-metrics", "127.0.0.1:0"}, args...), GinkgoWriter, func(l *listen.Listeners) { ready <- l })
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-over
	}
	DeferCleanup(func() { Expect(stop()).To(Succeed()) })
	select {
	case l = <-ready:
	case err := <-over:
		stopped = true
		Fail(err.Error())
	}
	return l, stop
}

// python returns a Python that has a package; the spec is skipped where there is none.
func python(what string) string {
	GinkgoHelper()
	name := os.Getenv("CARVE_PYTHON")
	if name == "" {
		name = "python3"
	}
	if out, err := exec.Command(name, "-c", "import "+what).CombinedOutput(); err != nil { //nolint:gosec // the caller's own Python
		Skip("there is no Python with " + what + " here (CARVE_PYTHON names one): " + strings.TrimSpace(string(out)))
	}
	return name
}

// models fills a repository with a model of every kind.
func models() string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	Expect(modeltest.All(dir, "../quickstart/digits.onnx")).To(Succeed())
	return dir
}

var _ = Describe("clients that others wrote", Label("clients"), func() {
	It("tritonclient over HTTP and gRPC: every call, every datatype, errors, sequences, streams", func() {
		name := python("tritonclient.http, tritonclient.grpc, ml_dtypes")
		l, _ := started("-models", models(), "-model-control", "explicit")
		for _, m := range []string{"digits", "total"} {
			load(l, m)
		}
		for datatype := range modeltest.Datatypes {
			load(l, "echo_"+strings.ToLower(datatype))
		}
		out, err := exec.Command(name, "testdata/triton.py", l.Addr("http").String(), l.Addr("grpc").String()).CombinedOutput() //nolint:gosec // see above
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(HaveSuffix("ok\n"))
		out, err = exec.Command(name, "testdata/triton.py", l.Addr("http").String(), l.Addr("http").String()).CombinedOutput() //nolint:gosec // see above
		Expect(err).NotTo(HaveOccurred(), "gRPC on the port of HTTP: "+string(out))
		Expect(string(out)).To(HaveSuffix("ok\n"))
	})
})
