package offheap_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestOffheap(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/offheap")
}
