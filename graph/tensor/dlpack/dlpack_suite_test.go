package dlpack_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestDLPack(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "graph/tensor/dlpack")
}
