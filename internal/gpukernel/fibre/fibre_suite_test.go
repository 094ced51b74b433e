package fibre_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestFibre(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gpukernel/fibre")
}
