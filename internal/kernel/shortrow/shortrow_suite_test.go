package shortrow_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestShortrow(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kernel/shortrow")
}
