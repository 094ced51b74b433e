package opencl_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/opencl"
	_ "github.com/carve-dev/carve/backend/reference"
)

func TestOpenCL(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute) // of a machine that does other things
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		suite.LabelFilter = "!/./" // what has a label takes minutes
	}
	RunSpecs(t, "opencl", suite, reporter)
}

// open opens the backend, and skips the spec where there is no OpenCL.
func open() backend.Backend {
	GinkgoHelper()
	return openWith(nil)
}

// openWith is open with options.
func openWith(options map[string]string) backend.Backend {
	GinkgoHelper()
	b, err := opencl.Open(backend.Config{Name: "opencl", Options: options})
	if errors.Is(err, backend.ErrUnavailable) {
		Skip("no OpenCL here: " + err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return b
}
