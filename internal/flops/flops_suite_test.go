package flops_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestFlops(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "flops")
}
