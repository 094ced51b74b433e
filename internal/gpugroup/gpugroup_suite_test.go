package gpugroup_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestGPUGroup(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gpugroup")
}
