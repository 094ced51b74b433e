package carve_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/flops"
)

// flopsOf returns what the steps of a run do, those that do nothing that is counted left out, and the sum.
func flopsOf(ctx context.Context, p *carve.Program, feeds map[string]tensor.Value) (steps []float64, sum float64) {
	GinkgoHelper()
	_, profile, err := p.RunProfiled(ctx, feeds)
	Expect(err).NotTo(HaveOccurred())
	for _, s := range profile.Spans {
		if s.FLOPs > 0 {
			steps = append(steps, s.FLOPs)
			sum += s.FLOPs
		}
	}
	return steps, sum
}

var _ = DescribeTable("a profile has the FLOPs of the model, whoever runs it", func(ctx SpecContext, lines ...string) {
	m := textModel("graph {\n  opset 17\n  " + strings.Join(lines, "\n  ") + "\n}")
	g := m.Graph()
	Expect(graph.InferGraph(g)).To(Succeed())
	count, err := flops.Of(g, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(count.Total).To(BeNumerically(">", 0))
	feeds := map[string]tensor.Value{}
	for _, v := range g.Inputs {
		dims, err := v.Type.Shape.Eval(nil, nil)
		Expect(err).NotTo(HaveOccurred())
		feeds[v.Name] = wave(dims...)
	}
	for _, backends := range [][]backend.Config{nil, {{Name: "reference"}}} {
		p := compile(ctx, m, &carve.Options{Backends: backends})
		_, sum := flopsOf(ctx, p, feeds)
		Expect(sum).To(BeNumerically("~", count.Total, 1e-9*count.Total), "%v", backends)
	}
},
	Entry("convolutions, with what is fused to them", `input %x: f32[2,16,9,10]`,
		constant("w", 32, 16, 3, 3), constant("d", 32, 1, 3, 3), constant("t", 32, 8, 2, 2),
		`%a = Conv(%x, %w; pads=[1,1,1,1])`, `%b = Relu(%a)`, `%c = Conv(%b, %d; group=32)`, `%y = ConvTranspose(%c, %t; strides=[2,2])`,
		`output %y`),
	Entry("convolutions over one axis, which take steps of conversion", `input %x: f32[2,16,30]`, constant("w", 8, 16, 3),
		`%y = Conv(%x, %w)`, `output %y`),
	Entry("convolutions over three axes, which take several steps each", `input %x: f32[2,3,5,6,7]`,
		constant("w", 4, 3, 3, 3, 3), constant("t", 4, 2, 2, 2, 2),
		`%a = Conv(%x, %w; pads=[1,1,1,1,1,1])`, `%y = ConvTranspose(%a, %t; strides=[2,1,1])`, `output %y`),
	Entry("products", `input %x: f32[3,5,8]`, `input %z: f32[3,8,5]`, constant("w", 8, 7), constant("v", 6, 35), constant("c", 6),
		`%a = MatMul(%x, %w)`, `%b = MatMul(%z, %a)`, `%f = Flatten(%a)`, `%g = Gemm(%f, %v, %c; alpha=0.5, transB=1)`,
		`output %b, %g`),
	Entry("recurrent operators in both directions", `input %x: f32[7,2,5]`,
		constant("w", 2, 16, 5), constant("r", 2, 16, 4), constant("u", 2, 12, 5), constant("s", 2, 12, 4), constant("p", 2, 4, 5), constant("q", 2, 4, 4),
		`%a = LSTM(%x, %w, %r; direction="bidirectional", hidden_size=4)`, `%b = GRU(%x, %u, %s; direction="bidirectional", hidden_size=4)`,
		`%c = GRU(%x, %u, %s; direction="bidirectional", hidden_size=4, linear_before_reset=1)`,
		`%d = RNN(%x, %p, %q; direction="bidirectional", hidden_size=4)`, `output %a, %b, %c, %d`),
)

var _ = It("a profile divides the FLOPs of a recurrent operator among its products", func(ctx SpecContext) {
	m := textModel("graph {\n  opset 17\n  input %x: f32[3,2,5]\n  " + constant("w", 1, 16, 5) + "\n  " + constant("r", 1, 16, 4) +
		"\n  %y = LSTM(%x, %w, %r; hidden_size=4)\n  output %y\n}")
	steps, _ := flopsOf(ctx, compile(ctx, m, nil), map[string]tensor.Value{"x": wave(3, 2, 5)})
	cell := 2.0 * 2 * 16 * 4
	Expect(steps).To(Equal([]float64{2 * 3 * 2 * 16 * 5, cell, cell, cell}))
})
