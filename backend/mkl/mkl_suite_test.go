package mkl_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/reference"
)

func TestMKL(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute) // of a machine that does other things
	RunSpecs(t, "mkl")
}

// libraries are the libraries to test with: what the system finds, and those that the files below a folder named by
// CARVE_TEST_ONEDNN (a list) are, such as another version.
func libraries() []string {
	return append([]string{""}, filepath.SplitList(os.Getenv("CARVE_TEST_ONEDNN"))...)
}

// options are the backend's options for a library.
func options(library string) map[string]string {
	if library == "" {
		return nil
	}
	return map[string]string{"library": library}
}

// open opens the backend with a library; "" stands for the system's, and skips the spec where it has none.
func open(library string) backend.Backend {
	GinkgoHelper()
	b, err := mkl.Open(backend.Config{Name: "mkl", Options: options(library)})
	if library == "" && errors.Is(err, backend.ErrUnavailable) {
		Skip("no oneDNN here: " + err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return b
}
