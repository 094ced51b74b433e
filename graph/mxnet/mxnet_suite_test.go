package mxnet_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/internal/zootest"
)

var (
	update = flag.Bool("update", false, "write the table of operators in doc.go anew")
	python = flag.String("mxnet", "", "Python interpreter that has mxnet 1.9.1")
	gluons = flag.String("models", "", "of Gluon that are made and compared, comma-separated; all by default")
	tables = flag.String("tables", "", "file to write tables of agreement to: models, operators")
	seed   = flag.Int("seed", 1, "of the cases that MXNet makes, and of the weights of its models")
)

func TestMXNet(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "graph/mxnet")
}

var _ = ReportAfterSuite("tables", func(r Report) {
	if *tables != "" {
		Expect(os.WriteFile(*tables, []byte(written(r)), 0o644)).To(Succeed())
	}
})

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
