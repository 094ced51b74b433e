package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Kernels of fast backends are not asked where there is nothing to compute: inference has to tell what contradicts itself.
var _ = DescribeTable("operands that contradict each other are refused on every backend where results are empty",
	func(ctx SpecContext, body string, in map[string]tensor.Value) {
		for _, name := range []string{"reference", "cpu"} {
			m := textModel("graph {\n  opset 27\n  opset \"com.microsoft\" 1\n" + body + "\n}")
			p, err := carve.Compile(ctx, m, &carve.Options{Strict: true, Backends: []backend.Config{{Name: name}}})
			if err == nil {
				_, err = p.Run(ctx, in)
				Expect(p.Close()).To(Succeed())
			}
			Expect(err).To(MatchError(ContainSubstring(`"node"`)), name)
			if name == "cpu" {
				Expect(err).To(Or(MatchError(graph.ErrShapeMismatch), MatchError(ContainSubstring("operands"))))
			}
		}
	},
	Entry("AffineGrid, the batch", `input %t: f32[a,b,c] input %s: i64[4] %y = AffineGrid(%t, %s) "node" output %y`,
		map[string]tensor.Value{"t": tensor.From([]float32{}, 0, 2, 3), "s": tensor.From([]int64{2, 1, 0, 3}, 4)}),
	Entry("AffineGrid, theta", `input %t: f32[a,b,c] const %s = i64[4]{2, 1, 0, 3} %y = AffineGrid(%t, %s) "node" output %y`,
		map[string]tensor.Value{"t": tensor.From(make([]float32, 24), 2, 3, 4)}),
	Entry("Col2Im, the positions", `input %t: f32[a,b,c] const %s = i64[2]{3, 3} const %k = i64[2]{2, 2} %y = Col2Im(%t, %s, %k) "node" output %y`,
		map[string]tensor.Value{"t": tensor.From([]float32{}, 0, 4, 7)}),
	Entry("Col2Im, an image without room", `input %t: f32[a,b,c] const %s = i64[2]{0, 3} const %k = i64[2]{2, 2} %y = Col2Im(%t, %s, %k) "node" output %y`,
		map[string]tensor.Value{"t": tensor.From(make([]float32, 8), 1, 4, 2)}),
	Entry("Col2Im, a block of nothing", `input %t: f32[a,b,c] const %s = i64[2]{3, 3} const %k = i64[2]{0, 2} %y = Col2Im(%t, %s, %k) "node" output %y`,
		map[string]tensor.Value{"t": tensor.From([]float32{}, 0, 4, 2)}),
	Entry("MaxUnpool, no place for an element", `input %t: f32[a,b,c,d] input %i: i64[a,b,c,d] const %o = i64[4]{0, 1, 1, 1}
  %y = MaxUnpool(%t, %i, %o; kernel_shape=[2, 2]) "node" output %y`,
		map[string]tensor.Value{"t": tensor.From([]float32{1, 2, 3, 4}, 1, 1, 2, 2), "i": tensor.From(make([]int64, 4), 1, 1, 2, 2)}),
	Entry("LinearAttention, the lengths", `input %q: f32[a,b,c] input %k: f32[d,e,f] input %v: f32[g,h,i] input %d: f32[j,k,l] input %b: f32[m,n,o]
  %y, %z = com.microsoft::LinearAttention(%q, %k, %v, _, %d, %b; q_num_heads=2, kv_num_heads=2) "node" output %y output %z`,
		map[string]tensor.Value{"q": tensor.From([]float32{}, 0, 3, 8), "k": tensor.From([]float32{}, 0, 4, 8), "v": tensor.From([]float32{}, 0, 3, 8),
			"d": tensor.From([]float32{}, 0, 3, 2), "b": tensor.From([]float32{}, 0, 3, 2)}),
)
