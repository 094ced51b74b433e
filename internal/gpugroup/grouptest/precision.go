package grouptest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// rounders round operands to a precision. In TF32 ties go away from zero, in the others to even numbers.
var rounders = map[string]func(float32) float32{
	"f32":  func(x float32) float32 { return x },
	"tf32": func(x float32) float32 { return math.Float32frombits((math.Float32bits(x) + 1<<12) &^ (1<<13 - 1)) },
	"f16":  func(x float32) float32 { return tensor.Float16ToFloat32(tensor.Float32ToFloat16(x)) },
	"bf16": func(x float32) float32 { return tensor.BFloat16ToFloat32(tensor.Float32ToBFloat16(x)) },
}

// Product is a graph of inputs "a" and "b" whose output "y" is a product of matrices M by K and K by N, however these lie.
type Product struct {
	Text    string
	M, N, K int
	A, B    []int // shapes
}

// The products that precisions are tried with.
var (
	MatMul = Product{`  input %a: f32[33,130]
  input %b: f32[130,40]
  %y = MatMul(%a, %b)
  output %y`, 33, 40, 130, []int{33, 130}, []int{130, 40}}
	Transposed = Product{`  input %a: f32[19,66]
  input %b: f32[35,66]
  %y = Gemm(%a, %b; transB=1)
  output %y`, 19, 35, 66, []int{19, 66}, []int{35, 66}}
	Conv = Product{`  input %a: f32[1,20,7,9]
  input %b: f32[24,20,1,1]
  %y = Conv(%a, %b)
  output %y`, 24, 63, 20, []int{1, 20, 7, 9}, []int{24, 20, 1, 1}}
)

// Graph returns the graph.
func (x *Product) Graph() (*graph.Graph, error) {
	return graph.Parse("graph {\n  opset 24\n" + x.Text + "\n}")
}

// Compare runs the program of the graph with operands between -1 and 1, and returns an error where it does not round them to a precision,
// or adds in less than float32. Nor may the report name another precision, or one where operands are not rounded.
func (x *Product) Compare(ctx context.Context, p *carve.Program, precision string) error {
	a, b := x.operands()
	out, err := p.Run(ctx, map[string]tensor.Value{"a": a, "b": b})
	if err != nil {
		return err
	}
	round := rounders[precision]
	got, av, bv := tensor.Of[float32](out["y"].(*tensor.Tensor)), tensor.Of[float32](a), tensor.Of[float32](b)
	if len(got) != x.M*x.N {
		return fmt.Errorf("%d results", len(got))
	}
	for i := range x.M {
		for j := range x.N {
			want := 0.0
			for l := range x.K {
				var left, right float32
				switch {
				case strings.Contains(x.Text, "Conv"): // rows are filters, columns pixels
					left, right = bv[i*x.K+l], av[l*x.N+j]
				case strings.Contains(x.Text, "transB"):
					left, right = av[i*x.K+l], bv[j*x.K+l]
				default:
					left, right = av[i*x.K+l], bv[l*x.N+j]
				}
				want += float64(round(left)) * float64(round(right))
			}
			if d := math.Abs(float64(got[i*x.N+j]) - want); !(d <= 1e-5) {
				return fmt.Errorf("%d, %d: %g, expected %g", i, j, got[i*x.N+j], want)
			}
		}
	}
	report, err := p.Report(ctx, nil)
	if err != nil {
		return err
	}
	if precision == "f32" {
		precision = ""
	}
	if len(report.Groups) == 0 || slices.ContainsFunc(report.Groups, func(g carve.GroupReport) bool { return g.Precision != precision }) {
		return fmt.Errorf("the report does not name %q: %v", precision, report.Groups)
	}
	return nil
}

func (x *Product) operands() (a, b *tensor.Tensor) {
	r := rand.New(rand.NewPCG(7, uint64(x.K)))
	return fractions(r, x.A...), fractions(r, x.B...)
}

// Check compares a program of the graph with the reference's kernels, on what Compare runs it with.
func (x *Product) Check(ctx context.Context, p *carve.Program) (*carve.Difference, error) {
	a, b := x.operands()
	return p.Check(ctx, map[string]tensor.Value{"a": a, "b": b})
}

// fractions returns a tensor of numbers between -1 and 1.
func fractions(r *rand.Rand, shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(2*r.Float64() - 1)
	}
	return tensor.From(data, shape...)
}
