package cpu_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = DescribeTable("rows of floats times weights of 8 bits run as", func(dt tensor.DType, rows, block int, want string) {
	m := newModel(uint64(rows))
	k, n := 64, 40
	zeros := bytesOf(m, dt, n)
	scales, attrs := m.data(m.floats(n)), []any{graph.IntAttr("axis", 1)}
	if block > 0 {
		scales, attrs = m.data(m.floats(k/block, n)), []any{graph.IntAttr("axis", 0), graph.IntAttr("block_size", int64(block))}
		zeros = bytesOf(m, dt, k/block, n)
	}
	w := m.op("DequantizeLinear", append([]any{m.data(bytesOf(m, dt, k, n)), scales, m.data(zeros)}, attrs...)...)
	m.check(m.op("MatMul", m.feed(m.floats(rows, k)), w))
	Expect(groupOf(m.g)).To(ContainElement(want))
},
	Entry("weights of 8 bits where there is one row, which waits for memory", tensor.Int8, 1, 0, "nibble-product"),
	Entry("those of two rows", tensor.Uint8, 2, 0, "nibble-product"),
	Entry("those whose blocks have scales of their own", tensor.Int8, 2, 32, "nibble-product"),
	Entry("floats where there are more", tensor.Int8, 3, 0, "MatMul"),
)

// groupOf returns what the only group of a model runs.
func groupOf(g *graph.Graph) []string {
	cm := carve.FromGraph(g)
	defer cm.Close()
	p, err := carve.Compile(context.Background(), cm, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	r, err := p.Report(context.Background(), nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Groups).To(HaveLen(1))
	return r.Groups[0].Ops
}

var _ = DescribeTable("rows of 8 bits times weights of 4 run as", func(rows, block int, want string) {
	m := newModel(uint64(rows))
	k, n := 64, 40
	weights, err := tensor.New(tensor.Int4, k, n)
	Expect(err).NotTo(HaveOccurred())
	for i := range weights.Data {
		weights.Data[i] = byte(m.r.UintN(256))
	}
	x := m.op("DequantizeLinear", m.feed(bytesOf(m, tensor.Uint8, rows, k)), scaleOf(m, 0.05, 1), m.data(bytesOf(m, tensor.Uint8)))
	scales, attrs := scaleOf(m, 0.05, n), []any{graph.IntAttr("axis", 1)}
	if block > 0 {
		scales, attrs = m.data(m.floats(k/block, n)), []any{graph.IntAttr("axis", 0), graph.IntAttr("block_size", int64(block))}
	}
	w := m.op("DequantizeLinear", append([]any{m.data(weights), scales}, attrs...)...)
	m.check(m.op("MatMul", x, w))

	Expect(groupOf(m.g)).To(ContainElement(want))
},
	Entry("integers of 8 bits", 9, 0, "quantized-product"),
	Entry("weights of 4 bits where there is one row, which waits for memory", 1, 0, "nibble-product"),
	Entry("weights of 4 bits where blocks have scales of their own", 9, 32, "nibble-product"),
)
