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

	cm := carve.FromGraph(m.g)
	defer cm.Close()
	p, err := carve.Compile(context.Background(), cm, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	r, err := p.Report(context.Background(), nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Groups).To(HaveLen(1))
	Expect(r.Groups[0].Ops).To(ContainElement(want))
},
	Entry("integers of 8 bits", 9, 0, "quantized-product"),
	Entry("weights of 4 bits where there is one row, which waits for memory", 1, 0, "nibble-product"),
	Entry("weights of 4 bits where blocks have scales of their own", 9, 32, "nibble-product"),
)
