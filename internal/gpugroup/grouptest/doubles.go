package grouptest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// doubles is a model in float64: convolutions, plain, grouped, one for each channel and transposed, products, norms, reductions,
// element-wise operators, movements of data, a recurrent layer and attention.
const doubles = `graph "doubles" {
  opset 23
  input %x: f64[2,6,9,7]
  input %r: f64[2,8,5,4]
  input %left: f64[2,3,5,10]
  input %right: f64[2,3,10,7]
  input %scale: f64[8]
  input %shift: f64[8]
  input %seq: f64[4,2,5]
  const $0 = f64[]{2.1}
  const $1 = i64[2]{2, 160}
  %c1 = Conv(%x, %x, %x; strides=[2,2], pads=[1,1,1,1])
  %c2 = Add(%c1, %r)
  %c3 = Relu(%c2)
  %c4 = Conv(%c3, %x; group=2)
  %c5 = HardSwish(%c4)
  %c6 = Conv(%c5, %x; group=8, pads=[1,1,1,1])
  %n = InstanceNormalization(%c6, %scale, %shift)
  %e = Erf(%n)
  %k = Abs(%e)
  %p = Pow(%k, $0)
  %q = Greater(%e, %n)
  %s = Where(%q, %p, %n)
  %f = Reshape(%s, $1)
  %g = Gemm(%f, %x, %x; alpha=0.5)
  %z = Softmax(%g; axis=1)
  %h = MatMul(%left, %right)
  %t = Transpose(%h; perm=[0,2,1,3])
  %l = ReduceLogSumExp(%t; keepdims=0)
  %a = Sigmoid(%h)
  %b = Gelu(%a)
  %o = ReduceMean(%b; keepdims=1)
  %v = ConvTranspose(%c5, %x; strides=[2,1], pads=[1,0,0,1], group=2)
  %u = LSTM(%seq, %x, %x; hidden_size=3)
  %w = Attention(%left, %left, %left; is_causal=1)
  output %z
  output %l
  output %o
  output %v
  output %u
  output %w
}
`

// Doubles returns a model in float64.
func Doubles() (*graph.Graph, error) {
	g, err := graph.Parse(doubles)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(9, 10))
	for _, w := range []struct {
		node, operand int
		shape         []int
	}{{0, 1, []int{8, 6, 3, 3}}, {0, 2, []int{8}}, {3, 1, []int{8, 4, 1, 1}}, {5, 1, []int{8, 1, 3, 3}}, {13, 1, []int{160, 12}}, {13, 2, []int{12}},
		{21, 1, []int{8, 3, 2, 3}}, {22, 1, []int{1, 12, 5}}, {22, 2, []int{1, 12, 3}}} {
		g.NodesByID()[w.node].SetOperand(w.operand, g.AddConst(fmt.Sprintf("w%d_%d", w.node, w.operand), uniform(r, w.shape...)))
	}
	return g, nil
}

// uniform returns a tensor of numbers between -1 and 1.
func uniform(r *rand.Rand, shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float64, n)
	for i := range data {
		data[i] = 2*r.Float64() - 1
	}
	return tensor.From(data, shape...)
}

// CompareDoubles runs a program of Doubles, and returns an error where its results are not those of the reference but for the order of sums,
// or a node ran elsewhere than on the backend.
func CompareDoubles(ctx context.Context, p *carve.Program, name string) error {
	g, err := Doubles()
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(11, 12))
	in := map[string]tensor.Value{"x": uniform(r, 2, 6, 9, 7), "r": uniform(r, 2, 8, 5, 4), "left": uniform(r, 2, 3, 5, 10), "right": uniform(r, 2, 3, 10, 7),
		"scale": uniform(r, 8), "shift": uniform(r, 8), "seq": uniform(r, 4, 2, 5)}
	err = compare(ctx, p, g, in, func(output string, got, want *tensor.Tensor) error {
		for i := range want.Len() {
			if x, y := got.Float64At(i), want.Float64At(i); !(math.Abs(x-y) <= 1e-13*max(1, math.Abs(y))) {
				return fmt.Errorf("%s, element %d: %.17g, expected %.17g", output, i, x, y)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	report, err := p.Report(ctx, nil)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(report.Groups, func(g carve.GroupReport) bool { return g.Backend != name }); i >= 0 {
		return fmt.Errorf("%v on %s", report.Groups[i].Ops, report.Groups[i].Backend)
	}
	return nil
}
