package grouptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Cast is a graph whose input, or output, is cast on its way to, or from, a convolution or a product that gives its channels, or
// columns, in another order: what comes out is exact.
type Cast struct {
	From, To tensor.DType
	Dims     []int // of the input
	Behind   bool  // the Cast is behind the other operator
}

// Graph returns the graph: an input "x", an output "y", and "h" between the two operators.
func (x *Cast) Graph() (*graph.Graph, error) {
	dt, op := x.To, "Conv"
	if x.Behind {
		dt = x.From
	}
	if len(x.Dims) == 2 {
		op = "MatMul"
	}
	cast := func(v string) string { return fmt.Sprintf("Cast(%%%s; to=%d)", v, x.To) }
	turn := func(v string) string { return fmt.Sprintf("%s(%%%s, %%%[2]s)", op, v) }
	first, second := cast("x"), turn("h")
	if x.Behind {
		first, second = turn("x"), cast("h")
	}
	dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(x.Dims), "[]"), " ", ",")
	g, err := graph.Parse(fmt.Sprintf("graph {\n  opset 21\n  input %%x: %v[%s]\n  %%h = %s\n  %%y = %s\n  output %%y\n}", x.From, dims, first, second))
	if err != nil {
		return nil, err
	}
	for n := range g.Nodes() {
		if n.Is(op) {
			n.SetOperand(1, g.AddConst("w", x.order(dt)))
		}
	}
	return g, nil
}

// between is a convolution in float64 between two on the host, in float32.
const between = `graph "between" {
  opset 21
  input %x: f32[1,16,6,7]
  %Op1 = Conv(%x, %x; pads=[1,1,1,1]) "Op1"
  %Op2 = Cast(%Op1; to=11) "Op2"
  %Op3 = Conv(%Op2, %x; pads=[1,1,1,1]) "Op3"
  %Op4 = Cast(%Op3; to=1) "Op4"
  %Op5 = Conv(%Op4, %x; pads=[1,1,1,1]) "Op5"
  output %Op5
}
`

// RunBetween runs a convolution in float64 on a device, with the Casts around it, between two of cpu's in float32 whose images lie in
// blocks of channels, and returns the conversions of a run. The error says where the result is not that of the reference to the bit.
func RunBetween(ctx context.Context, device backend.Config) (_ []string, err error) {
	g, err := graph.Parse(between)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range g.NodesByID() {
		if n.Is("Conv") {
			dt := tensor.Float32
			if n.Name == "Op3" {
				dt = tensor.Float64
			}
			n.SetOperand(1, g.AddConst("w"+n.Name, converted(Whole(r, 1, 16, 16, 3, 3), dt)))
		}
	}
	o := carve.Options{Backends: []backend.Config{device, {Name: "cpu", Options: map[string]string{"winograd": "off"}}}, Placement: carve.Priority, Strict: true, Verify: true, Poison: true}
	for _, name := range []string{"Op1", "Op5"} {
		o.Pins = append(o.Pins, property.Pin{Node: name, Backend: "cpu"})
	}
	m := carve.FromGraph(g)
	defer func() { err = errors.Join(err, m.Close()) }()
	p, err := carve.Compile(ctx, m, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	err = compare(ctx, p, g, map[string]tensor.Value{"x": Whole(r, 3, 1, 16, 6, 7)}, func(_ string, got, want *tensor.Tensor) error {
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			return fmt.Errorf("%v instead of %v", got, want)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	report, err := p.Report(ctx, nil)
	return hops(report), err
}

// hops returns the conversions of a run.
func hops(r *carve.Report) (list []string) {
	for _, c := range r.Conversions {
		if !c.Constant {
			list = append(list, fmt.Sprintf("%s: %s → %s by %s", c.Value, c.From, c.To, c.Via))
		}
	}
	return list
}

// order returns weights, or a matrix, that put channels, or columns, in another order.
func (x *Cast) order(dt tensor.DType) *tensor.Tensor {
	n := x.Dims[1]
	data := make([]float32, n*n)
	for i, k := range rand.New(rand.NewPCG(3, uint64(n))).Perm(n) {
		data[i*n+k] = 1
	}
	shape := slices.Repeat([]int{1}, len(x.Dims))
	shape[0], shape[1] = n, n
	w, err := tensor.Convert(tensor.From(data, shape...), dt, nil)
	if err != nil {
		panic(err) // from float32 to a float
	}
	return w
}

// Compare runs a program of the graph several times, and returns the conversions of a run, and how many nodes each group has. The error
// says where a result is not that of the reference to the bit.
func (x *Cast) Compare(ctx context.Context, p *carve.Program) (conversions, groups []string, err error) {
	g, err := x.Graph()
	if err != nil {
		return nil, nil, err
	}
	r := rand.New(rand.NewPCG(uint64(x.From), uint64(x.To)))
	for range 3 {
		in := x.input(r)
		err := compare(ctx, p, g, map[string]tensor.Value{"x": in}, func(_ string, got, want *tensor.Tensor) error {
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				return fmt.Errorf("%v of %v is %v instead of %v", x, in, got, want)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	report, err := p.Report(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range report.Groups {
		groups = append(groups, fmt.Sprintf("%s %d", c.Backend, len(c.Nodes)))
	}
	return hops(report), groups, nil
}

// input returns random elements of all magnitudes that the other types hold, none of them zero.
func (x *Cast) input(r *rand.Rand) *tensor.Tensor {
	n := 1
	for _, d := range x.Dims {
		n *= d
	}
	if x.From.IsFloat() {
		data := make([]float64, n)
		for i := range data {
			data[i] = (1 + r.Float64()) * math.Exp2(float64(r.IntN(28)-13)) * float64(1-2*r.IntN(2))
		}
		return converted(tensor.From(data, x.Dims...), x.From)
	}
	data := make([]int64, n)
	for i := range data {
		data[i] = int64(r.Uint64()>>r.IntN(63) | 1)
	}
	return converted(tensor.From(data, x.Dims...), x.From)
}

func converted(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	c, err := tensor.Convert(t, dt, nil)
	if err != nil {
		panic(err) // between numbers
	}
	return c
}
