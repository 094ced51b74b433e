package grouptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/property"
)

// sixOperators returns the example of the proposals, with operators that have layouts of their own: (Op1-MKL → Op2-MKL) →
// (Op3-device → Op4-device) → (Op5-MKL) → (Op6-MXNet). Weights are -1, 0 and 1, so that all sums of small integers are exact in
// float32.
func sixOperators() (*graph.Graph, error) {
	g, err := graph.Parse(`graph "six" {
  opset 17
  input %x: f32[1,16,8,8]
  %Op1 = Conv(%x, %x; pads=[1,1,1,1]) "Op1"
  %Op2 = Relu(%Op1) "Op2"
  %Op3 = Conv(%Op2, %x; pads=[1,1,1,1]) "Op3"
  %Op4 = Relu(%Op3) "Op4"
  %Op5 = Conv(%Op4, %x; pads=[1,1,1,1]) "Op5"
  %Op6 = Neg(%Op5) "Op6"
  output %Op6
}
`)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 2, 4} {
		g.NodesByID()[n].SetOperand(1, g.AddConst(fmt.Sprintf("w%d", n), Whole(r, 1, 16, 16, 3, 3)))
	}
	return g, nil
}

// Whole returns a tensor of integers from -most to most.
func Whole(r *rand.Rand, most int, shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(r.IntN(2*most+1) - most)
	}
	return tensor.From(data, shape...)
}

// Run is what became of sixOperators.
type Run struct {
	Output *tensor.Tensor
	Groups []string // "mkl 2": the backend, and how many nodes
	Hops   []string // "Op2: host:NCHW16c → cuda:0:NHWC": conversions of a run, in order
}

// RunPinned runs sixOperators with operators pinned to the backends that owners names in order, and compares every node with the
// reference.
func RunPinned(ctx context.Context, o carve.Options, owners []string) (_ *Run, err error) {
	g, err := sixOperators()
	if err != nil {
		return nil, err
	}
	for i, b := range owners {
		o.Pins = append(o.Pins, property.Pin{Node: fmt.Sprintf("Op%d", i+1), Backend: b})
	}
	o.Placement, o.Verify, o.Strict = carve.Priority, true, true
	m := carve.FromGraph(g)
	defer func() { err = errors.Join(err, m.Close()) }()
	p, err := carve.Compile(ctx, m, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	in := map[string]tensor.Value{"x": Whole(rand.New(rand.NewPCG(3, 4)), 3, 1, 16, 8, 8)}
	out, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	if d, err := p.Check(ctx, in); d != nil || err != nil {
		return nil, fmt.Errorf("check: %v: %w", d, err)
	}
	r, err := p.Report(ctx, nil)
	if err != nil {
		return nil, err
	}
	done := &Run{}
	if done.Output, err = out["Op6"].(*tensor.Tensor).Clone(); err != nil {
		return nil, err
	}
	for _, g := range r.Groups {
		done.Groups = append(done.Groups, fmt.Sprintf("%s %d", g.Backend, len(g.Nodes)))
	}
	for _, c := range r.Conversions {
		if !c.Constant {
			done.Hops = append(done.Hops, fmt.Sprintf("%s: %s → %s", c.Value, c.From, c.To))
		}
	}
	return done, nil
}

// Pinned returns the backends of the example, and options of a list of them; the first node is mkl's, in blocks of as many channels as the
// library computes with on this processor, and the last the reference's.
func Pinned(device backend.Config) (owners []string, list []backend.Config) {
	owners = []string{"mkl", "mkl", device.Name, device.Name, "mkl", "reference"}
	return owners, []backend.Config{{Name: "mkl"}, device, {Name: "reference"}}
}

// Blocks returns conversions written for blocks of 16 channels, of processors with AVX-512, as they are where there are fewer lanes: of 8.
func Blocks(hops []string) []string {
	if cpuid.Host().Has(cpuid.AVX512F) {
		return hops
	}
	list := make([]string, len(hops))
	for i, h := range hops {
		list[i] = strings.ReplaceAll(h, "NCHW16c", "NCHW8c")
	}
	return list
}
