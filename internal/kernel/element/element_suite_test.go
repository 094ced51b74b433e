package element_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestElement(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernel/element")
}
