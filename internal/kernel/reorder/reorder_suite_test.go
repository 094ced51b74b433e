package reorder_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestReorder(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "reorder")
}
