package exec

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Symbols of dims that depend on data are bound by the operands that a group, or a region that is interpreted, is given. Where operands do
// not tell them apart, as with a length to which two others are broadcast, it has not to matter which is which.

// errOperand says that an operand has not the shape that was inferred for it.
var errOperand = errors.New("operand is not of its inferred shape")

// bindOperands adds to b the symbols that the shapes of a body's operands determine, and verifies that these are the inferred ones.
func bindOperands(b graph.Bindings, body *graph.Graph, in []*graph.Value, operands []*tensor.Tensor) (graph.Bindings, error) {
	b = maps.Clone(b)
	if b == nil {
		b = graph.Bindings{}
	}
	var sets []*alike
	for again := true; again; { // a dim of several symbols may be solved when others are
		again = false
		for i, v := range in {
			s, t := v.Type.Shape, operands[i]
			if t == nil || !s.Known() || len(s) != len(t.Shape) {
				return nil, fmt.Errorf("%w: %v %v is %v", errOperand, v, v.Type, t)
			}
			for k, d := range s {
				if name, x, ok := solve(d, int64(t.Shape[k]), b); ok {
					b[name], again = x, true
				}
			}
		}
		if again {
			continue
		}
		if a := equate(b, in, operands); a != nil {
			sets, again = append(sets, a), true
		}
	}
	for i, v := range in {
		dims, err := v.Type.Shape.Eval(b, []int{})
		if err != nil {
			return nil, fmt.Errorf("value %v %v: %w", v, v.Type, err)
		}
		if !slices.Equal(dims, operands[i].Shape) {
			return nil, fmt.Errorf("%w: %v is %v, inferred as %v", errOperand, v, operands[i], dims)
		}
	}
	return b, distinguished(body, b, sets)
}

// alike are symbols of one dim that are bound to one value though some of them may be 1: they are broadcast with each other, or all with
// a symbol that has the value.
type alike struct {
	symbols  []string
	value    int64
	anchored bool // by another symbol: each of them may be 1
}

// equate binds the symbols of one dim that are left: where the dim is affine in them when they are equal, such as 4*bcast(?1,?2), or is
// what it is whether they are 1 or what another of its symbols is. It returns nil where there is no such dim.
func equate(b graph.Bindings, in []*graph.Value, operands []*tensor.Tensor) *alike {
	for i, v := range in {
		for k, d := range v.Type.Shape {
			set := map[string]bool{}
			d.Symbols(set)
			var left []string
			for s := range set {
				if _, bound := b[s]; !bound {
					left = append(left, s)
				}
			}
			if len(left) == 0 {
				continue
			}
			a := &alike{symbols: left}
			x := int64(operands[i].Shape[k])
			if _, y, ok := solve(all(d, left, graph.Sym("?")), x, b); ok && len(left) > 1 {
				a.value = y
			} else if a.value, a.anchored = anchor(d, set, left, x, b); !a.anchored {
				continue
			}
			for _, s := range left {
				b[s] = a.value
			}
			return a
		}
	}
	return nil
}

// all returns d with one dim for some of its symbols.
func all(d graph.Dim, symbols []string, one graph.Dim) graph.Dim {
	sub := map[string]graph.Dim{}
	for _, s := range symbols {
		sub[s] = one
	}
	return d.Subst(sub)
}

// anchor returns the value of a symbol that is bound, with which the others may be replaced, as with 1, for d to be x.
func anchor(d graph.Dim, set map[string]bool, left []string, x int64, b graph.Bindings) (value int64, ok bool) {
	is := func(n int64) bool {
		y, err := all(d, left, graph.D(int(n))).Eval(b)
		return err == nil && y == x
	}
	if !is(1) {
		return 0, false
	}
	for s := range set {
		if v, bound := b[s]; bound && v > 1 && is(v) {
			return v, true
		}
	}
	return 0, false
}

// distinguished returns an error that wraps graph.ErrUnbound where it matters to a dim of g's which of such symbols are 1: what is known
// of them is only what they are broadcast to.
func distinguished(g *graph.Graph, b graph.Bindings, sets []*alike) error {
	for _, a := range sets {
		for _, s := range a.symbols {
			trial := maps.Clone(b)
			for _, other := range a.symbols {
				if (other == s) == a.anchored {
					trial[other] = 1
				}
			}
			if v := differing(g, b, trial); v != nil {
				return fmt.Errorf("value %v %v: %w: %s", v, v.Type, graph.ErrUnbound, s)
			}
		}
	}
	return nil
}

// differing returns a value of g, or of its regions, whose shape or content is not the same under both bindings; nil for none.
func differing(g *graph.Graph, a, b graph.Bindings) *graph.Value {
	for _, v := range g.ValuesByID() {
		if v == nil {
			continue
		}
		for _, dims := range [][]graph.Dim{v.Type.Shape, v.Dims} {
			for _, d := range dims {
				x, err := d.Eval(a)
				if errors.Is(err, graph.ErrUnbound) {
					continue // in both
				}
				if y, other := d.Eval(b); err != nil || other != nil || x != y {
					return v
				}
			}
		}
	}
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			if v := differing(r.Graph, a, b); v != nil {
				return v
			}
		}
	}
	return nil
}
