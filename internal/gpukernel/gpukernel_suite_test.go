package gpukernel_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestGPUKernel(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		suite.LabelFilter = "!/./" // what has a label takes minutes, and a compiler from elsewhere
	}
	RunSpecs(t, "gpukernel", suite, reporter)
}
