package single_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestSingle(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/single")
}
