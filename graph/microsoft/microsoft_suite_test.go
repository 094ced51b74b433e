package microsoft_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/reference"
)

func TestMicrosoft(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "graph/microsoft")
}
