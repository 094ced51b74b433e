package layered_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestLayered(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "layered")
}
