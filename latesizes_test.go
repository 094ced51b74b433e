package carve_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// closed returns the text of a model with the shapes of operands as types of its inputs.
func closed(text string, feeds map[string]tensor.Value) string {
	for name, v := range feeds {
		t := v.(*tensor.Tensor)
		dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(t.Shape), "[]"), " ", ",")
		text = regexp.MustCompile(`(input %`+name+`: \w+)\[[^\]]*\]`).ReplaceAllString(text, "${1}["+dims+"]")
	}
	return text
}

var _ = DescribeTable("an operator whose ranks or sizes are open is compiled for those that a run finds", func(ctx SpecContext, body string, feeds func(length, times int) map[string]tensor.Value) {
	text := "graph {\n  opset 17\n  opset \"com.microsoft\" 1\n" + body + "}"
	cpu, err := backend.Open(backend.Config{Name: "cpu"})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cpu.Close)
	b := &noting{Backend: cpu}
	p := compile(ctx, textModel(text), &carve.Options{Open: map[string]backend.Backend{"cpu": b}, Backends: []backend.Config{{Name: "cpu"}}, Verify: true, Poison: true})
	run := func(p *carve.Program, length, times int) {
		in := feeds(length, times)
		got, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		for name, want := range referenceOutputs(ctx, textModel(closed(text, in)), in) {
			near(got[name], want)
		}
	}
	_ = b.took()
	run(p, 20, 1)
	Expect(b.took()).NotTo(BeEmpty())
	run(p, 30, 1)
	Expect(b.took()).To(BeEmpty()) // lengths are of one Program
	run(p, 20, 2)
	Expect(b.took()).NotTo(BeEmpty())
	run(p, 25, 2)
	Expect(b.took()).To(BeEmpty())
	run(compile(ctx, textModel(text), &carve.Options{Backends: onReference}), 4, 1)
},
	Entry("MultiHeadAttention", ` input %q: f32[N,S,D]
 input %k: f32[N,T,D]
 input %v: f32[N,T,E]
 %a = com.microsoft::MultiHeadAttention(%q, %k, %v; num_heads=4)
 %y = Relu(%a)
 output %y
`, func(length, times int) map[string]tensor.Value {
		return map[string]tensor.Value{"q": wave(8, length, 32*times), "k": wave(8, 2*length, 32*times), "v": wave(8, 2*length, 16*times)}
	}),
	Entry("MultiHeadAttention with a bias and a cache, of any rank", ` input %q: f32[*]
 input %k: f32[*]
 input %b: f32[*]
 input %c: f32[*]
 %a, %l, %m = com.microsoft::MultiHeadAttention(%q, %k, %k, %b, _, _, %c, %c; num_heads=4)
 output %a, %l, %m
`, func(length, times int) map[string]tensor.Value {
		return map[string]tensor.Value{"q": wave(8, length, 32*times), "k": wave(8, length, 32*times), "b": wave(96 * times), "c": wave(8, 4, 5, 8*times)}
	}),
	Entry("Attention", ` input %x: f32[N,S,D]
 input %w: f32[D,E]
 input %b: f32[E]
 %a = com.microsoft::Attention(%x, %w, %b; num_heads=2, unidirectional=1)
 %y = Add(%a, %x)
 output %y
`, func(length, times int) map[string]tensor.Value {
		return map[string]tensor.Value{"x": wave(8, length, 16*times), "w": wave(16*times, 48*times), "b": wave(48 * times)}
	}),
	Entry("FusedMatMul", ` input %a: f32[*]
 input %b: f32[*]
 %m = com.microsoft::FusedMatMul(%a, %b; transB=1, alpha=0.5)
 %y = Softmax(%m)
 output %y
`, func(length, times int) map[string]tensor.Value {
		dims := slices.Clone([]int{4, 3}[2-times:])
		return map[string]tensor.Value{"a": wave(append(dims, length, 32)...), "b": wave(append(dims, 2*length, 32)...)}
	}),
	Entry("RotaryEmbedding", ` input %x: f32[N,S,D]
 input %p: i64[N,S]
 input %c: f32[M,C]
 %y = com.microsoft::RotaryEmbedding(%x, %p, %c, %c)
 output %y
`, func(length, times int) map[string]tensor.Value {
		p := make([]int64, 8*length)
		for i := range p {
			p[i] = int64(i % 7)
		}
		return map[string]tensor.Value{"x": wave(8, length, 64*times), "p": tensor.From(p, 8, length), "c": wave(32, 8*times)}
	}),
	Entry("Conv of any number of results", ` input %x: f32[N,C,H,W]
 input %w: f32[M,C,3,3]
 %c = Conv(%x, %w; pads=[1, 1, 1, 1])
 %y = Relu(%c)
 output %y
`, func(length, times int) map[string]tensor.Value {
		return map[string]tensor.Value{"x": wave(2, 3, length, 20), "w": wave(8*times, 3, 3, 3)}
	}),
	Entry("GroupNorm", ` input %x: f32[*]
 input %g: f32[C]
 %y = com.microsoft::GroupNorm(%x, %g, %g; groups=4, activation=1)
 output %y
`, func(length, times int) map[string]tensor.Value {
		return map[string]tensor.Value{"x": wave(append([]int{8, length, 10}[:1+times], 9, 32)...), "g": wave(32)}
	}),
)

var _ = Describe("an operator of ONNX Runtime whose sizes are open", func() {
	It("is refused by the run whose sizes do not fit, which names it", func(ctx SpecContext) {
		const text = "graph {\n  opset 17\n  opset \"com.microsoft\" 1\n  input %x: f32[N,S,D]\n  input %w: f32[D,E]\n  %y = com.microsoft::Attention(%x, %w; num_heads=3) \"heads\"\n  output %y\n}"
		p := compile(ctx, textModel(text), &carve.Options{Verify: true})
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(2, 40, 16), "w": wave(16, 48)})
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(err).To(MatchError(ContainSubstring("heads")))
		_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(2, 40, 18), "w": wave(18, 54)})
		Expect(err).NotTo(HaveOccurred())
	})
})
