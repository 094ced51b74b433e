package onnx_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/zootest"
)

func TestOnnx(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "graph/onnx")
}

// shared returns a path below the folder of data that lies beside the repository, or skips the spec.
func shared(elem ...string) string {
	GinkgoHelper()
	path, err := zootest.Shared(strings.Join(elem, "/"))
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	return path
}
