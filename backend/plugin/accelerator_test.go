package plugin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

// program builds a command of testdata, once, and skips where that cannot be done.
func program(t testing.TB, name string, env string, flags ...string) string {
	t.Helper()
	gotool, err := exec.LookPath("go")
	if _, nocc := exec.LookPath("gcc"); err != nil || nocc != nil || !dl.Supported {
		t.Skip("a program, or a library with cgo, cannot be built here")
	}
	programs.Lock()
	defer programs.Unlock()
	if path := programs.built[name]; path != "" {
		return path
	}
	dir, err := os.MkdirTemp("", "carve-plugin-")
	if err != nil {
		t.Fatal(err)
	}
	folders = append(folders, dir)
	out := filepath.Join(dir, name+".so")
	cmd := exec.Command(gotool, append(append([]string{"build", "-trimpath"}, flags...), "-o", out, "./testdata/"+name)...)
	cmd.Env = append(os.Environ(), env)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	if programs.built == nil {
		programs.built = map[string]string{}
	}
	programs.built[name] = out
	return out
}

var programs struct {
	sync.Mutex
	built map[string]string
}

// accelerator builds the test accelerator: carve's own kernels behind the interface.
func accelerator(t testing.TB) string {
	t.Helper()
	return program(t, "accelerator", "CGO_ENABLED=1", "-buildmode=c-shared")
}

// TestKernels runs the suite on carve's own kernels through the interface, in queues and without.
func TestKernels(t *testing.T) {
	l, err := plugin.Open(accelerator(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, synchronous := range []string{"false", "true"} {
		options := map[string]string{"synchronous": synchronous}
		t.Run("synchronous="+synchronous, func(t *testing.T) {
			backendtest.Run(t, func() backend.Backend {
				b, err := l.Open("accelerator", options)
				if err != nil {
					t.Fatal(err)
				}
				return b
			})
		})
	}
}

var _ = Describe("a plugin with a Go runtime of its own", func() {
	It("leaves the program its signals and its collector, where that has no cgo", func(ctx SpecContext) {
		host := program(GinkgoTB(), "tworuntimes", "CGO_ENABLED=0")
		text, err := exec.CommandContext(ctx, host, accelerator(GinkgoTB())).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(text))
		Expect(string(text)).To(Equal("ok\n"))
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("a processor that is open several times", func() {
	It("has a memory for each, and formats are of its own", func(ctx SpecContext) {
		path := accelerator(GinkgoTB())
		for range 3 {
			m := relu()
			DeferCleanup(m.Close)
			p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "accelerator"}}, Plugins: []string{path}, Strict: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			_, err = p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, -2, 3}, 1, 3)})
			Expect(err).NotTo(HaveOccurred())
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Groups).To(HaveLen(1))
			Expect(r.Groups[0].Backend).To(Equal("accelerator"))
		}
	})
})
