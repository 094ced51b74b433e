package fakecuda_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestFakecuda(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gpukernel/fakecuda")
}
