package cpuid_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestCpuid(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "cpuid")
}
