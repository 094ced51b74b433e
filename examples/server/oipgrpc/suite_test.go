package oipgrpc

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestOIPGRPC(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "oipgrpc")
}
