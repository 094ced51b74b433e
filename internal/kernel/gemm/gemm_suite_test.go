package gemm_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestGemm(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gemm")
}
