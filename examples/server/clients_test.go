package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
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
	if out, err := exec.Command(name, "-c", "import "+what).CombinedOutput(); err != nil {
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
	// client runs a script on a server with all models but these, over both ports of gRPC. Its last line is ok.
	client := func(name, script string, but ...string) {
		GinkgoHelper()
		l, _ := started("-models", models(), "-model-control", "explicit")
		names := []string{"digits", "total"}
		for datatype := range modeltest.Datatypes {
			names = append(names, "echo_"+strings.ToLower(datatype))
		}
		for _, m := range names {
			if !slices.Contains(but, m) {
				load(l, m)
			}
		}
		for _, port := range []string{"grpc", "http"} {
			out, err := exec.Command(name, script, l.Addr("http").String(), l.Addr(port).String()).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "gRPC on port %s: %s", port, out)
			Expect(string(out)).To(HaveSuffix("ok\n"))
		}
	}

	It("tritonclient over HTTP and gRPC: every call, every datatype, errors, sequences, streams", func() {
		client(python("tritonclient.http, tritonclient.grpc, ml_dtypes"), "testdata/triton.py")
	})

	It("KServe's over REST, HTTP/2 too, and gRPC: every call, every datatype, errors", func() {
		client(python("kserve, h2"), "testdata/kserveclients.py", "echo_uint8")
	})

	It("perf_analyzer over HTTP, gRPC and streams", func(ctx SpecContext) {
		name := os.Getenv("CARVE_PERF_ANALYZER")
		if name == "" {
			name = "perf_analyzer"
		}
		if out, err := exec.CommandContext(ctx, name, "--version").CombinedOutput(); err != nil {
			Skip("there is no perf_analyzer that runs here (CARVE_PERF_ANALYZER names one): " + err.Error() + " " + string(out))
		}
		dir := models()
		Expect(modeltest.Configure(dir, "echo_fp32", "max_batch_size: 8\ndynamic_batching { }")).To(Succeed())
		l, _ := started("-models", dir)
		for _, row := range [][]string{
			{"-i", "http", "-u", l.Addr("http").String()}, {"-i", "grpc", "-u", l.Addr("grpc").String()}, {"-i", "grpc", "-u", l.Addr("http").String()},
			{"-i", "grpc", "-u", l.Addr("grpc").String(), "--streaming"},
		} {
			for _, model := range [][]string{{"-m", "digits", "--shape", "image:1,1,8,8"}, {"-m", "echo_fp32", "-b", "4"}} {
				args := append([]string{"--concurrency-range", "2", "--measurement-mode", "count_windows", "--measurement-request-count", "100", "--stability-percentage", "999"}, row...)
				out, err := exec.CommandContext(ctx, name, append(args, model...)...).CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), "%v: %s", args, out)
				Expect(string(out)).To(MatchRegexp(`throughput: [1-9][0-9.]* infer/sec`), "%v", args)
			}
		}
	})
})
