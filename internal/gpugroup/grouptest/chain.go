package grouptest

import (
	"bytes"
	"context"
	"errors"
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

// Chain returns the chain.
func Chain() (*graph.Graph, error) {
	g, err := graph.Parse(chain)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(5, 6))
	for i, shape := range [][]int{{12, 8, 3, 3}, {4, 12, 1, 1}} {
		g.NodesByID()[i].SetOperand(1, g.AddConst(fmt.Sprintf("w%d", i+1), Whole(r, 1, shape...)))
	}
	return g, nil
}

// CompareChain runs a program of Chain, and returns an error where its result is not that of the reference to the bit.
func CompareChain(ctx context.Context, p *carve.Program) error {
	g, err := Chain()
	if err != nil {
		return err
	}
	in := map[string]tensor.Value{"x": Whole(rand.New(rand.NewPCG(7, 8)), 2, 1, 8, 6, 5)}
	return compare(ctx, p, g, in, func(_ string, got, want *tensor.Tensor) error {
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			return fmt.Errorf("%v instead of %v", got, want)
		}
		return nil
	})
}

// compare runs a program of a graph, and hands its results over with those of the reference.
func compare(ctx context.Context, p *carve.Program, g *graph.Graph, in map[string]tensor.Value, each func(name string, got, want *tensor.Tensor) error) (err error) {
	m := carve.FromGraph(g)
	defer func() { err = errors.Join(err, m.Close()) }()
	plain, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	got, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	want, err := plain.Run(ctx, in)
	if err != nil {
		return err
	}
	for name, v := range want {
		if err := each(name, got[name].(*tensor.Tensor), v.(*tensor.Tensor)); err != nil {
			return err
		}
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
