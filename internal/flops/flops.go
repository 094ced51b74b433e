// Package flops counts the floating-point operations of a model from its shapes: 2 for every multiply-add of Conv,
// ConvTranspose, MatMul, Gemm, LSTM, GRU and RNN, and of the quantised forms of Conv and MatMul, taps in padding included,
// and nothing for anything else. Counted over the model's own graph, before any rewriting, it is a measure of the model and
// not of who runs it. Profiles and cost models count nodes by it too.
//
// The package imports graph and nothing above it.
package flops

import (
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
)

// Work is what one node of the model does when it runs once.
type Work struct {
	Node  string  // its name in the model
	FLOPs float64 // 0 for operators that are not counted
	Bytes float64 // of operands and results; 0 where a shape is not known
	Runs  float64 // how often it runs: more than 1 in loops of a known number of iterations
}

// NodeWork is what a node of static shapes, or one with values for its symbols, does when it runs once.
type NodeWork struct {
	FLOPs float64 // of what is counted; a fused node does what its body does
	Other float64 // elements of the results of everything else
	Bytes float64 // of operands and results
}

// OfNode counts one node. The error wraps graph.ErrUnbound where a shape is not known.
func OfNode(n *graph.Node, b graph.Bindings) (w NodeWork, err error) {
	known := false
	if w.Bytes, known, err = traffic(n, b); err == nil && !known {
		err = graph.ErrUnbound
	}
	if err == nil {
		w.FLOPs, err = OfArithmetic(n, b)
	}
	if err == nil {
		w.Other, err = others(n, b)
	}
	return w, err
}

// OfArithmetic counts the FLOPs of one node alone, or those of a fused node's body: without a look at the shapes of nodes
// that have none. The error wraps graph.ErrUnbound where a shape that matters is not known.
func OfArithmetic(n *graph.Node, b graph.Bindings) (float64, error) {
	if !n.IsCarve(graph.OpFused) {
		adds, err := multiplyAdds(n, b)
		return 2 * adds, err
	}
	return ofBody(n, b, OfArithmetic)
}

// others counts the elements of the results of a node that OfArithmetic does not count, or of such nodes of its body.
func others(n *graph.Node, b graph.Bindings) (sum float64, err error) {
	if n.IsCarve(graph.OpFused) {
		return ofBody(n, b, others)
	}
	if counted(n) {
		return 0, nil
	}
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		k, err := elements(v, b)
		if err != nil {
			return 0, err
		}
		sum += k
	}
	return sum, nil
}

// ofBody adds up what count finds of the nodes of a fused node's body.
func ofBody(n *graph.Node, b graph.Bindings, count func(*graph.Node, graph.Bindings) (float64, error)) (sum float64, err error) {
	for m := range n.Regions[0].Graph.Nodes() {
		x, err := count(m, b)
		if err != nil {
			return 0, err
		}
		sum += x
	}
	return sum, nil
}

// Count is the work of a graph.
type Count struct {
	Nodes []Work // in list order; those of regions before their owner
	// Unknown names the nodes that should count and whose shapes depend on data: Total lacks them.
	Unknown []string
	// Partial names the loops whose number of iterations depends on data: Total has one of them.
	Partial []string
	Total   float64 // FLOP of one run: of the arms of an If, the larger counts
}

// Of counts g, whose types must have been inferred, for these values of the symbols. It costs O(V+E).
func Of(g *graph.Graph, b graph.Bindings) (*Count, error) {
	c := &Count{}
	total, err := c.graph(g, b, 1)
	if err != nil {
		return nil, err
	}
	c.Total = total
	return c, nil
}

func (c *Count) graph(g *graph.Graph, b graph.Bindings, runs float64) (float64, error) {
	var total float64
	for n := range g.Nodes() {
		inner := runs
		if len(n.Regions) > 0 {
			k, known := Iterations(n, b)
			if !known {
				c.Partial = append(c.Partial, nameOf(n))
			}
			inner *= k
		}
		var regions []float64
		for _, r := range n.Regions {
			t, err := c.graph(r.Graph, b, inner)
			if err != nil {
				return 0, err
			}
			regions = append(regions, t)
		}
		w := Work{Node: nameOf(n), Runs: runs}
		adds, err := multiplyAdds(n, b)
		if errors.Is(err, graph.ErrUnbound) {
			c.Unknown = append(c.Unknown, w.Node)
		} else if err != nil {
			return 0, err
		}
		w.FLOPs = 2 * adds
		if w.Bytes, _, err = traffic(n, b); err != nil {
			return 0, err
		}
		c.Nodes = append(c.Nodes, w)
		total += w.FLOPs * runs
		if n.Is("If") {
			most := 0.0
			for _, t := range regions {
				most = max(most, t)
			}
			total += most
			continue
		}
		for _, t := range regions {
			total += t
		}
	}
	return total, nil
}

func nameOf(n *graph.Node) string {
	if p := n.Provenance(); len(p) > 0 {
		return p[0]
	}
	return n.Name
}

// Iterations returns how often the regions of n run; 1 and false where that depends on data.
func Iterations(n *graph.Node, b graph.Bindings) (k float64, known bool) {
	switch {
	case n.Is("Loop"):
		v := n.Input(0)
		if v == nil || len(v.Dims) == 0 || !endless(n) {
			return 1, false
		}
		trips, err := v.Dims[0].Eval(b)
		if err != nil {
			return 1, false
		}
		return float64(max(trips, 0)), true
	case n.Is("Scan"):
		first := len(n.Inputs) - int(n.Int("num_scan_inputs", 0))
		if first < 0 || first >= len(n.Inputs) {
			return 1, false
		}
		dims, err := shapeOf(n.Input(first), b)
		axis := 0
		if axes, ok := n.Ints("scan_input_axes"); ok && len(axes) > 0 {
			axis = int(axes[0])
		}
		if err == nil && axis < 0 {
			axis += len(dims)
		}
		if err != nil || axis < 0 || axis >= len(dims) {
			return 1, false
		}
		return float64(dims[axis]), true
	case n.Is("SequenceMap"):
		return 1, false
	}
	return 1, true
}

// endless reports whether only the trip count ends a Loop: its condition is absent or true, and stays so.
func endless(n *graph.Node) bool {
	body := n.Region("body")
	if body == nil || len(body.Outputs) == 0 || len(body.Inputs) < 2 {
		return false
	}
	if !always(n.Input(1)) {
		return false
	}
	out := body.Outputs[0]
	for out.Producer != nil && out.Producer.Is("Identity") {
		out = out.Producer.Inputs[0]
	}
	return out == body.Inputs[1] || out.IsConst() && always(out)
}

// always reports whether a condition is absent or a constant true.
func always(v *graph.Value) bool {
	if v == nil {
		return true
	}
	t := v.Const
	if t == nil && v.Producer != nil && v.Producer.Is("Constant") {
		t = v.Producer.TensorAttr("value")
	}
	return t != nil && t.Check() == nil && t.Len() == 1 && t.Float64At(0) != 0
}

// shapeOf returns the dims of v. The error wraps graph.ErrUnbound where they depend on data.
func shapeOf(v *graph.Value, b graph.Bindings) ([]int, error) {
	if v == nil || !v.Type.IsTensor() || !v.Type.Shape.Known() {
		return nil, graph.ErrUnbound
	}
	return v.Type.Shape.Eval(b, []int{})
}

// elements returns the number of elements of v. The error wraps graph.ErrUnbound where a dim depends on data.
func elements(v *graph.Value, b graph.Bindings) (float64, error) { return part{v: v}.extent(b) }

// part is the dims [first, end) of a value: a negative first is counted from the end, end 0 is behind the last.
type part struct {
	v          *graph.Value
	first, end int
}

// extent returns the product of the dims, 0 where there are too few. The errors are those of elements.
func (x part) extent(b graph.Bindings) (float64, error) {
	if x.v == nil || !x.v.Type.IsTensor() || !x.v.Type.Shape.Known() {
		return 0, graph.ErrUnbound
	}
	dims := x.v.Type.Shape
	if x.first < 0 {
		x.first += len(dims)
	}
	if x.first < 0 || max(x.first, x.end) > len(dims) {
		return 0, nil
	}
	if x.end == 0 {
		x.end = len(dims)
	}
	p := 1.0
	for _, d := range dims[x.first:x.end] {
		n, static := d.Const()
		switch {
		case static:
		case len(b) == 0:
			return 0, graph.ErrUnbound
		default:
			var err error
			if n, err = d.Eval(b); err != nil {
				return 0, err
			}
			if n < 0 {
				return 0, fmt.Errorf("%w: %v is %d", graph.ErrDimValue, d, n)
			}
		}
		p *= float64(n)
	}
	return p, nil
}

// traffic returns the bytes of all operands and results; those of unknown shape do not count, and known is false.
func traffic(n *graph.Node, b graph.Bindings) (sum float64, known bool, err error) {
	known = true
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			k, err := elements(v, b)
			if errors.Is(err, graph.ErrUnbound) {
				known = false
				continue
			}
			if err != nil {
				return 0, false, err
			}
			sum += k * float64(v.Type.DType.Bits()) / 8
		}
	}
	return sum, known, nil
}

// counted reports whether the multiply-adds of n are counted.
func counted(n *graph.Node) bool {
	if n.Op.Domain != "" {
		return false
	}
	switch n.Op.Name {
	case "Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "MatMul", "MatMulInteger", "QLinearMatMul", "Gemm", "LSTM", "GRU", "RNN":
		return true
	}
	return false
}

// multiplyAdds returns those of one run of n. The error wraps graph.ErrUnbound where a shape that matters is unknown.
func multiplyAdds(n *graph.Node, b graph.Bindings) (float64, error) {
	if !counted(n) {
		return 0, nil
	}
	switch n.Op.Name {
	case "Conv", "ConvInteger":
		return product(b, part{v: n.Output(0)}, part{v: n.Input(1), first: 1})
	case "QLinearConv": // x, scale, zero point, w
		return product(b, part{v: n.Output(0)}, part{v: n.Input(3), first: 1})
	case "ConvTranspose":
		return product(b, part{v: n.Input(0)}, part{v: n.Input(1), first: 1})
	case "MatMul", "MatMulInteger", "QLinearMatMul":
		return product(b, part{v: n.Output(0)}, part{v: n.Input(0), first: -1})
	case "Gemm": // M·N·K is the root of M·K · K·N · M·N, whatever is transposed
		p, err := product(b, part{v: n.Input(0)}, part{v: n.Input(1)}, part{v: n.Output(0)})
		return math.Floor(math.Sqrt(p) + 0.5), err
	}
	// Recurrent: W is [directions, gates·hidden, input], R is [directions, gates·hidden, hidden].
	steps := part{n.Input(0), 0, 2}
	input, err := product(b, steps, part{v: n.Input(1)})
	if err != nil {
		return 0, err
	}
	hidden, err := product(b, steps, part{v: n.Input(2)})
	return input + hidden, err
}

// product returns the product of the dims of parts.
func product(b graph.Bindings, parts ...part) (float64, error) {
	p := 1.0
	for _, x := range parts {
		n, err := x.extent(b)
		if err != nil {
			return 0, err
		}
		p *= n
	}
	return p, nil
}
