package jpeg_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestJPEG(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/jpeg")
}
