package nvidia_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestNvidia(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "nvidia")
}
