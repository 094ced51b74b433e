package winograd_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestWinograd(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "winograd")
}
