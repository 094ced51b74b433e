package cost

import (
	"maps"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/fuse"
)

// operands are the shapes of a node's operands and results, with assumptions where they are open.
type operands struct {
	ins, outs [][]float64    // nil for one that is absent or of unknown rank
	sizes     graph.Bindings // values of symbols, not to be changed
	bindings  graph.Bindings // with assumptions; nil where there are no symbols
	bytes     float64        // of all, an operand that comes twice counting once
	outBytes  float64
	room      []float64 // for dims of operands and results that are to come
}

// shapes returns those of n with these values of symbols.
func shapes(n *graph.Node, sizes graph.Bindings) *operands {
	ranks := 0
	for _, vs := range [2][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil {
				ranks += len(v.Type.Shape)
			}
		}
	}
	lists := make([][]float64, len(n.Inputs)+len(n.Outputs))
	o := &operands{ins: lists[:len(n.Inputs)], outs: lists[len(n.Inputs):], sizes: sizes, room: make([]float64, ranks)}
	for i, v := range n.Inputs {
		o.ins[i] = o.dims(v)
		if !seen(n.Inputs[:i], v) {
			o.bytes += bytes(v, o.ins[i])
		}
	}
	for i, v := range n.Outputs {
		o.outs[i] = o.dims(v)
		o.outBytes += bytes(v, o.outs[i])
	}
	o.bytes += o.outBytes
	return o
}

func seen(list []*graph.Value, v *graph.Value) bool {
	for _, w := range list {
		if w == v {
			return true
		}
	}
	return false
}

// dims returns the dims of v: graph.AssumedSize for symbols that have no value, graph.AssumedDim for what cannot be computed.
func (o *operands) dims(v *graph.Value) []float64 {
	if v == nil || !v.Type.IsTensor() || !v.Type.Shape.Known() {
		return nil
	}
	rank := len(v.Type.Shape)
	d := o.room[:rank:rank]
	o.room = o.room[rank:]
	for i, x := range v.Type.Shape {
		if c, ok := x.Const(); ok {
			d[i] = float64(max(c, 0))
			continue
		}
		if o.bindings == nil {
			o.bindings = graph.Bindings{}
			maps.Copy(o.bindings, o.sizes)
		}
		o.bindings.Assume(x)
		d[i] = graph.AssumedDim
		if c, err := x.Eval(o.bindings); err == nil && c > 0 {
			d[i] = float64(c)
		}
	}
	return d
}

// bytes returns the size of a value; one of unknown rank counts as some numbers.
func bytes(v *graph.Value, dims []float64) float64 {
	if v == nil || !v.Type.IsTensor() {
		return 0
	}
	size := float64(v.Type.DType.Bits()) / 8
	if dims == nil {
		return graph.AssumedDim * graph.AssumedDim * size
	}
	return product(dims) * size
}

func (o *operands) in(i int) []float64 {
	if i < len(o.ins) {
		return o.ins[i]
	}
	return nil
}

func (o *operands) out() []float64 {
	if len(o.outs) == 0 {
		return nil
	}
	return o.outs[0]
}

// most returns the elements of the largest operand or result.
func (o *operands) most() float64 {
	n := 0.0
	for _, list := range [][][]float64{o.ins, o.outs} {
		for _, d := range list {
			if d != nil {
				n = max(n, product(d))
			}
		}
	}
	return n
}

// rows returns the rows of the largest result or operand: its elements over its last dim.
func (o *operands) rows() float64 {
	n, rows := -1.0, 1.0
	for _, list := range [][][]float64{o.outs, o.ins} {
		for _, d := range list {
			if p := product(d); d != nil && p > n {
				n, rows = p, 1
				if len(d) > 0 {
					rows = product(d[:len(d)-1])
				}
			}
		}
	}
	return rows
}

// pieces returns how many runs of elements a Concat or Split moves: what lies outside of its axis, for each part.
func (o *operands) pieces(n *graph.Node) float64 {
	whole, parts := o.out(), len(o.ins)
	if n.Is("Split") {
		whole, parts = o.in(0), len(o.outs)
	}
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += len(whole)
	}
	return product(whole[:min(max(axis, 0), len(whole))]) * float64(parts)
}

// kept returns how many runs of elements a transposition moves whose last dims stay where they are.
func (o *operands) kept(n *graph.Node) float64 {
	p, _ := n.Ints("perm")
	x := o.in(0)
	if len(p) != len(x) {
		return o.rows()
	}
	k := len(p)
	for k > 0 && p[k-1] == int64(k-1) {
		k--
	}
	return product(x[:k])
}

// joined reports whether the parts of a Concat or Split lie one behind the other in the whole, in whole blocks: producers may
// make them there.
func (o *operands) joined(n *graph.Node) bool {
	whole, parts := o.out(), o.ins
	if n.Is("Split") {
		whole, parts = o.in(0), o.outs
	}
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += len(whole)
	}
	if axis < 0 || axis >= len(whole) || product(whole[:axis]) != 1 {
		return false
	}
	for _, d := range parts {
		if axis < len(d) && d[axis] != pad(d[axis]) {
			return false
		}
	}
	return true
}

// cut reports whether a Slice takes whole blocks of the outermost dim that is not 1: the result lies in the operand.
func (o *operands) cut() bool {
	x, y := o.in(0), o.out()
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		return product(x[:i]) == 1 && y[i] == pad(y[i]) && product(x[i+1:]) == product(y[i+1:])
	}
	return true
}

// broadcasts reports whether an operand of more than one element has fewer than the result.
func (o *operands) broadcasts() bool {
	n := product(o.out())
	for _, d := range o.ins {
		if p := product(d); d != nil && p > 1 && p < n {
			return true
		}
	}
	return false
}

// reducesLast reports whether a reduction is over the last dims alone, or over all.
func (o *operands) reducesLast(n *graph.Node) bool {
	x, y := o.in(0), o.out()
	if len(x) == 0 {
		return true
	}
	if n.Int("keepdims", 1) == 0 || len(y) != len(x) {
		// The dims that stay are the first ones.
		for i := range y {
			if i < len(x) && y[i] != x[i] {
				return false
			}
		}
		return true
	}
	return y[len(y)-1] != x[len(x)-1] || x[len(x)-1] == 1
}

// flops returns the operations that package flops counts, 0 where it cannot.
func (o *operands) flops(n *graph.Node, class string) float64 {
	if !multiplies(class) {
		return 0
	}
	x, err := flops.OfArithmetic(n, o.bindings)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// constant reports whether a value is a constant, seen through the border of a fused node.
func constant(v *graph.Value) bool {
	return fuse.IsConst(v)
}
