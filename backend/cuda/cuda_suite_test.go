package cuda_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/cuda"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

func TestCUDA(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute) // of a machine that does other things
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		suite.LabelFilter = "!/./" // what has a label takes minutes
	}
	RunSpecs(t, "cuda", suite, reporter)
}

// folder is where drivers are built.
var folder string

var _ = AfterSuite(func() {
	if folder != "" {
		Expect(os.RemoveAll(folder)).To(Succeed())
	}
})

var shared = sync.OnceValues(func() (*fakecuda.Driver, error) { return build("shared", fakecuda.Options{}) })

// build makes a driver in a folder of its own. It is another library for the backend, with devices of its own.
func build(name string, o fakecuda.Options) (*fakecuda.Driver, error) {
	var err error
	if folder == "" {
		if folder, err = os.MkdirTemp("", "cuda"); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(folder, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return fakecuda.Build(GinkgoT().Context(), dir, o)
}

// own is build for one spec, which is skipped where there is no compiler.
func own(name string, o fakecuda.Options) *fakecuda.Driver {
	GinkgoHelper()
	d, err := build(name, o)
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	return d
}

// driver returns the shared driver as it was at first. After the spec nothing of it may be left, nor may it have been misused.
func driver() *fakecuda.Driver {
	GinkgoHelper()
	d, err := shared()
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	d.Reset()
	DeferCleanup(func() {
		Eventually(d.Live).Should(BeEmpty())
		Expect(d.Report()).To(BeEmpty())
	})
	return d
}

// config names a driver and its compiler. Nothing is kept on disk but by the compiler itself.
func config(d *fakecuda.Driver, options ...string) backend.Config {
	all := map[string]string{"library": d.CUDA, "nvrtc": d.NVRTC, "cache": "off", "libraries": "off"}
	more := map[string]string{}
	for i := 0; i < len(options); i += 2 {
		more[options[i]] = options[i+1]
	}
	maps.Copy(all, more)
	return backend.Config{Name: "cuda", Options: all}
}

// open opens the backend on a driver until the end of the spec.
func open(d *fakecuda.Driver) backend.Backend {
	GinkgoHelper()
	b, err := cuda.Open(config(d))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return b
}
