package nibble_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestNibble(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernel/nibble")
}
