package kernelstore_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestKernelStore(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernelstore")
}
