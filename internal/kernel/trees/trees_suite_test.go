package trees_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestTrees(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernel/trees")
}
