package gradient_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
)

func TestGradient(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "graph/gradient")
}
