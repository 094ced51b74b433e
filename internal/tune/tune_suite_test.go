package tune_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestTune(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/tune")
}
