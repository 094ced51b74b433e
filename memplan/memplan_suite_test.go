package memplan_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestMemplan(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "memplan")
}
