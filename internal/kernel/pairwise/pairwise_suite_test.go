package pairwise_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPairwise(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernel/pairwise")
}
