package carve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/property"
)

// folding computes nodes whose operands are constants: long ones, such as the product of a table of positions and a matrix of weights, as
// programs of one node on the embedded backend, the others, and what fails there, by the oracle's kernels.
type folding struct {
	kernels
	c *compilation
}

// What the oracle's kernels take, about, in nanoseconds, and from where on a node is worth a program of its own, which takes some 0.3 ms.
const (
	plainFLOP    = 1
	plainElement = 10
	leastAlone   = 2e6
)

// longContent is from how many elements on an operand is an input of such a program: no list of axes or sizes has as many.
const longContent = 1 << 10

// Eval implements graph.Evaluator.
func (f folding) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	if w, err := flops.OfNode(n, nil); err == nil && plainFLOP*w.FLOPs+plainElement*max(w.Other, reduced(n)) >= leastAlone {
		if b := f.embedded(n); b != nil {
			if out, err := f.compiled(ctx, n, inputs, b); err == nil || ctx.Err() != nil {
				return out, err
			}
		}
	}
	return f.kernels.Eval(ctx, n, inputs)
}

// reduced returns how many elements a reduction reads, of which its results, which count otherwise, are few; 0 for other operators.
func reduced(n *graph.Node) float64 {
	if n.Op.Domain != "" || !strings.HasPrefix(n.Op.Name, "Reduce") || n.Input(0) == nil || n.Input(0).Const == nil {
		return 0
	}
	return float64(n.Input(0).Const.Len())
}

// embedded returns the first of the implicit backends if it is in the list and may have a node; the kernels of others are for runs.
func (f folding) embedded(n *graph.Node) backend.Backend {
	i := slices.IndexFunc(f.c.backends, func(b backend.Backend) bool { return b.Info().Name == implicit()[0] })
	if i < 0 || property.Allowed(f.c.o.Pins, n, implicit()[0]) != nil || f.c.backends[i].Supports(n).Reason != nil {
		return nil
	}
	return f.c.backends[i]
}

// compiled runs a node as a program of its own on a backend.
func (f folding) compiled(ctx context.Context, n *graph.Node, inputs []tensor.Value, b backend.Backend) ([]tensor.Value, error) {
	g, feeds := alone(n, inputs)
	if len(feeds) == 0 { // it would be folded there
		return nil, fmt.Errorf("%w: %v reads nothing long", ErrInput, n)
	}
	name := b.Info().Name
	o := Options{Backends: []backend.Config{{Name: name}}, Open: map[string]backend.Backend{name: b}, Strict: true, Threads: f.c.o.Threads, MaxSessions: 1}
	p, err := Compile(ctx, FromGraph(g), &o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	made, err := p.Run(ctx, feeds)
	if err != nil {
		return nil, err
	}
	out := make([]tensor.Value, len(n.Outputs))
	for i, v := range n.Outputs {
		if v != nil {
			out[i] = made[resultName(i)]
		}
	}
	return out, nil
}

func operandName(i int) string { return fmt.Sprintf("x%d", i) }

func resultName(i int) string { return fmt.Sprintf("y%d", i) }

// alone returns a graph of one node like n, and its inputs: the long operands of n. Short ones, of which axes and sizes may be some, are its
// constants.
func alone(n *graph.Node, operands []tensor.Value) (*graph.Graph, map[string]tensor.Value) {
	g := graph.New("")
	outer := n.Graph()
	for outer.Owner() != nil {
		outer = outer.Owner().Graph()
	}
	g.Opsets = maps.Clone(outer.Opsets)
	spec := graph.NodeSpec{Op: n.Op, Name: "folded", Attrs: n.Attrs}
	feeds, known := map[string]tensor.Value{}, map[*graph.Value]*graph.Value{}
	for i, v := range n.Inputs {
		if v != nil && known[v] == nil {
			name := operandName(i)
			if v.Const.Len() >= longContent {
				known[v], feeds[name] = g.AddInput(name, v.Type), operands[i]
			} else {
				known[v] = g.AddConst(name, v.Const)
			}
		}
		spec.Inputs = append(spec.Inputs, known[v])
	}
	for i, v := range n.Outputs {
		name := ""
		if v != nil {
			name = resultName(i)
		}
		spec.Outputs = append(spec.Outputs, name)
	}
	var results []*graph.Value
	for i, v := range g.AddNode(spec).Outputs {
		if v != nil {
			v.Type = n.Outputs[i].Type
			results = append(results, v)
		}
	}
	g.SetOutputs(results...)
	return g, feeds
}
