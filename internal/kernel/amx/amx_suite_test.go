package amx_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestAmx(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "amx")
}
