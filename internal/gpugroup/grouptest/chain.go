package grouptest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// chain is two convolutions behind each other, with numbers so small that 16 bits hold them, and float32 the sums.
const chain = `graph "chain" {
  opset 17
  input %x: f32[1,8,6,5]
  %h = Conv(%x, %x; pads=[1,1,1,1])
  %y = Conv(%h, %x)
  output %y
}
`

// CompileChain compiles the chain, strictly and with poisoned memory.
func CompileChain(ctx context.Context, o carve.Options) (*carve.Program, error) {
	g, err := graph.Parse(chain)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(5, 6))
	for i, shape := range [][]int{{12, 8, 3, 3}, {4, 12, 1, 1}} {
		g.NodesByID()[i].SetOperand(1, g.AddConst(fmt.Sprintf("w%d", i+1), Whole(r, 1, shape...)))
	}
	o.Placement, o.Strict, o.Poison, o.Verify = carve.Priority, true, true, true
	return carve.Compile(ctx, carve.FromGraph(g), &o)
}

// CompareChain runs a program of CompileChain, and returns an error where its result is not that of the reference to the bit.
func CompareChain(ctx context.Context, p *carve.Program) error {
	plain, err := CompileChain(ctx, carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	if err != nil {
		return err
	}
	defer plain.Close()
	in := map[string]tensor.Value{"x": Whole(rand.New(rand.NewPCG(7, 8)), 2, 1, 8, 6, 5)}
	got, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	want, err := plain.Run(ctx, in)
	if err != nil {
		return err
	}
	if a, b := got["y"].(*tensor.Tensor), want["y"].(*tensor.Tensor); !bytes.Equal(a.Bytes(), b.Bytes()) {
		return fmt.Errorf("%v instead of %v", a, b)
	}
	return nil
}

// Conversions returns what is converted to which layouts, constants included, in alphabetical order.
func Conversions(ctx context.Context, p *carve.Program) ([]string, error) {
	r, err := p.Report(ctx, nil)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, c := range r.Conversions {
		list = append(list, fmt.Sprintf("%s to %s", c.Value, c.To))
	}
	slices.Sort(list)
	return list, nil
}
