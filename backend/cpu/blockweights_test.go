package cpu_test

import (
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// weightsInBlocks adds random weights of a number of bits, in bytes of that shape, and scales under which a product with k of them keeps the
// size of its operands.
func weightsInBlocks(m *model, bits, k int, bytes []int, blocks ...int) (weights, scales *graph.Value) {
	q, err := tensor.New(tensor.Uint8, bytes...)
	Expect(err).NotTo(HaveOccurred())
	for i, b := 0, q.Bytes(); i < len(b); i++ {
		b[i] = byte(m.r.UintN(256))
	}
	s := m.floats(blocks...)
	for i, x := 0, tensor.Of[float32](s); i < len(x); i++ {
		x[i] = float32((0.5 + m.r.Float64()) * 4 / float64(int(1)<<bits) / math.Sqrt(float64(k)))
	}
	return m.data(q), m.data(s)
}

// rounds judges results of rows that are rounded to 8 bits: by the root of the mean square they are a few hundredths of a deviation away.
func (m *model) rounds(got map[string]tensor.Value) string {
	for _, v := range m.g.Outputs {
		a, b := tensor.Of[float32](got[v.Name].(*tensor.Tensor)), tensor.Of[float32](m.known[v])
		off, size := 0.0, 0.0
		for i, x := range b {
			off += math.Pow(float64(a[i]-x), 2)
			size += math.Pow(float64(x), 2)
		}
		if d := math.Sqrt(off / size); !(d < 0.04) {
			return fmt.Sprintf("output %s: %g away", v.Name, d)
		}
	}
	return ""
}

var _ = Describe("weights in blocks whose rows may be rounded", func() {
	node := func(m *model, op string, in []*graph.Value, attrs ...graph.Attr) {
		m.g.Opsets[microsoft.Domain] = 1
		m.judge = m.rounds
		out := m.add(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: op}, Name: "r", Inputs: in, Outputs: []string{"y"},
			Attrs: append(attrs, graph.IntAttr("accuracy_level", 4))})
		Expect(m.err).NotTo(HaveOccurred())
		m.check(out...)
	}

	It("multiply rows nearly as they are", seeds(24, func(m *model) {
		bits, block := pick(m, 4, 4, 8), pick(m, 16, 32, 128, 512)
		k, n, rows := block*m.between(1, 3), pick(m, 5, 16, 70), pick(m, 1, 3, 12)
		w, s := weightsInBlocks(m, bits, k, []int{n, k / block, block * bits / 8}, n, k/block)
		node(m, "MatMulNBits", []*graph.Value{m.input(rows, k), w, s}, graph.IntAttr("K", int64(k)), graph.IntAttr("N", int64(n)),
			graph.IntAttr("bits", int64(bits)), graph.IntAttr("block_size", int64(block)))
	}))

	It("are those of experts that several tokens go through", seeds(12, func(m *model) {
		bits, block, tokens, experts := pick(m, 4, 8), pick(m, 16, 32), pick(m, 1, 9, 40), m.between(1, 4)
		hidden, inner := block*m.between(1, 4), block*m.between(1, 4)
		first, scales := weightsInBlocks(m, bits, hidden, []int{experts, inner, hidden * bits / 8}, experts, inner, hidden/block)
		second, scales2 := weightsInBlocks(m, bits, inner, []int{experts, hidden, inner * bits / 8}, experts, hidden, inner/block)
		node(m, "QMoE", []*graph.Value{m.input(tokens, hidden), m.input(tokens, experts), first, scales, nil, second, scales2},
			graph.IntAttr("k", int64(m.between(1, experts))), graph.IntAttr("expert_weight_bits", int64(bits)), graph.IntAttr("block_size", int64(block)),
			graph.StringAttr("activation_type", "identity"))
	}))
})
