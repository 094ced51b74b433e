package octet_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestOctet(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernel/octet")
}
