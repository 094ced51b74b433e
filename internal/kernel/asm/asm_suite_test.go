package asm_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestAsm(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "asm")
}
