package onnx_test

import (
	"io"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
)

var _ = DescribeTable("a model without a graph is not written", func(ctx SpecContext, m *onnx.Model) {
	path := filepath.Join(GinkgoT().TempDir(), "m.onnx")
	for _, err := range []error{onnx.Save(ctx, path, m, nil), onnx.Write(ctx, io.Discard, nil, m, nil)} {
		Expect(err).To(MatchError(graph.ErrNil))
		Expect(err).To(BeAssignableToTypeOf(&onnx.Error{}))
	}
	Expect(path).NotTo(BeAnExistingFile())
	Expect((&onnx.Error{}).Error()).NotTo(BeEmpty())
}, Entry("nil", nil), Entry("the zero one", &onnx.Model{}))
