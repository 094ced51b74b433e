package ptx_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPTX(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gpukernel/ptx")
}
