package isa_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestISA(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "isa")
}
