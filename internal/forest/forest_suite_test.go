package forest_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestForest(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "forest")
}
