package quant_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestQuant(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "quant")
}
