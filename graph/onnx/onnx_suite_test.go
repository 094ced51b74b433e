package onnx_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestOnnx(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "graph/onnx")
}

// shared returns a path below the folder of data that lies beside the repository, or skips the spec.
func shared(elem ...string) string {
	GinkgoHelper()
	dir, err := os.Getwd()
	Expect(err).NotTo(HaveOccurred())
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	p := filepath.Join(append([]string{dir, "..", "shared"}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		Skip("shared data not present: " + filepath.Join(elem...))
	}
	return p
}
