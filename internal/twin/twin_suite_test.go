package twin_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestTwin(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "twin")
}
