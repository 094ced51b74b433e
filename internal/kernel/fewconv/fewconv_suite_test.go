package fewconv_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestFewConv(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernel/fewconv")
}
