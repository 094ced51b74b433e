package nvrtc_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestNVRTC(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gpukernel/nvrtc")
}
