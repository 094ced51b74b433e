package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// What makes 8-bit integers of one value of such integers, element by element, has 256 results, whatever stands between: a
// requantisation, an activation, x·Sigmoid(x) with both operands quantised. The results are found once, by the kernels on floats, and
// looked up.

// byteFunction is everything between a value of 8-bit integers and a QuantizeLinear behind it.
type byteFunction struct {
	x   *graph.Value
	q   *graph.Node
	all []*graph.Node
}

func (f *byteFunction) nodes() []*graph.Node { return f.all }

// byteSearch is a function while it is looked for.
type byteSearch struct {
	nodes  []*graph.Node
	leaves []*graph.Value // integers that are read from outside, each once
	shape  graph.Shape
	visits int
}

// byteFunctionVisits bounds the values of a function, each as often as it is read.
const byteFunctionVisits = 32

// readByteFunction returns the largest function in front of a QuantizeLinear, nil where there is none. own asks that what dequantises
// the integers is read by nobody else.
func readByteFunction(q *graph.Node, own bool) (f *byteFunction) {
	if !q.Is("QuantizeLinear") {
		return nil
	}
	s := &byteSearch{shape: q.Outputs[0].Type.Shape}
	if !s.quantized(q) {
		return nil
	}
	for {
		if len(s.leaves) == 1 && s.closed(q, own) {
			f = &byteFunction{x: s.leaves[0], q: q, all: slices.Clone(s.nodes)}
		}
		if !s.widen() {
			return f
		}
	}
}

// widen takes a leaf's own function in, where nobody else reads the leaf.
func (s *byteSearch) widen() bool {
	for i, v := range s.leaves {
		if v.Producer == nil || !v.Producer.Is("QuantizeLinear") || v.IsOutput() || !s.readsAlone(v) {
			continue
		}
		t := &byteSearch{nodes: slices.Clone(s.nodes), leaves: slices.Delete(slices.Clone(s.leaves), i, i+1), shape: s.shape, visits: s.visits}
		if t.quantized(v.Producer) {
			*s = *t
			return true
		}
	}
	return false
}

// readsAlone reports whether all readers of a value are nodes of the function.
func (s *byteSearch) readsAlone(v *graph.Value) bool {
	return !slices.ContainsFunc(v.Uses(), func(u graph.Use) bool { return !slices.Contains(s.nodes, u.Node) })
}

// quantized adds a QuantizeLinear and what is in front of it, down to integers.
func (s *byteSearch) quantized(q *graph.Node) bool {
	if _, ok := levelsBetween(q); !ok || !s.floats(q.Inputs[0]) {
		return false
	}
	s.nodes = append(s.nodes, q)
	return true
}

// floats adds what makes a value of floats.
func (s *byteSearch) floats(v *graph.Value) bool {
	n := v.Producer
	s.visits++
	switch {
	case n == nil || s.visits > byteFunctionVisits || !v.Type.Shape.Equal(s.shape):
		return false
	case slices.Contains(s.nodes, n):
		return true
	case n.Is("DequantizeLinear"):
		if _, ok := levelsBetween(n); !ok {
			return false
		}
		if !slices.Contains(s.leaves, n.Inputs[0]) {
			s.leaves = append(s.leaves, n.Inputs[0])
		}
	case !operators.IsFloat32(v):
		return false
	case isActivation(n):
		if !s.floats(n.Inputs[0]) {
			return false
		}
	case isFloatBinary(n):
		for _, in := range n.Inputs {
			if _, ok := fuse.Scalar(in); !ok && !s.floats(in) {
				return false
			}
		}
	default:
		return false
	}
	s.nodes = append(s.nodes, n)
	return true
}

// isFloatBinary reports whether a node is an operator of floatBinary on two operands.
func isFloatBinary(n *graph.Node) bool {
	_, ok := floatBinary[n.Op.Name]
	return ok && n.Op.Domain == "" && len(n.Inputs) == 2 && n.Inputs[0] != nil && n.Inputs[1] != nil && operators.IsFloat32(n.Inputs...)
}

// closed reports whether nothing inside is read from outside; own counts what dequantises the leaf as inside.
func (s *byteSearch) closed(q *graph.Node, own bool) bool {
	for _, n := range s.nodes {
		if v := n.Outputs[0]; n != q && (own || n.Inputs[0] != s.leaves[0]) && (v.IsOutput() || !s.readsAlone(v)) {
			return false
		}
	}
	return true
}

// followFunction is readByteFunction for functions that are not a part of a larger one.
func followFunction(q *graph.Node, own bool) *byteFunction {
	f := readByteFunction(q, own)
	if f == nil {
		return nil
	}
	for v, steps := q.Outputs[0], 0; v.NumUses() > 0 && steps < byteFunctionVisits; steps++ {
		n := v.Uses()[0].Node
		if len(n.Outputs) != 1 {
			break
		}
		if larger := readByteFunction(n, own); larger != nil && slices.Contains(larger.all, q) {
			return nil
		}
		v = n.Outputs[0]
	}
	return f
}

// ownLeaf gives the nodes of a function that read a DequantizeLinear of the leaf which others read too one of their own.
func (f *byteFunction) ownLeaf() {
	s := &byteSearch{nodes: f.all}
	for _, n := range f.all {
		for k, v := range n.Inputs {
			if v != nil && v.Producer != nil && v.Producer.Is("DequantizeLinear") && v.Producer.Inputs[0] == f.x && (v.IsOutput() || !s.readsAlone(v)) {
				fuse.OwnDequantize(n, k)
			}
		}
	}
}

// byteFunctionName is the name of the property of such functions, and of the fused nodes' pattern.
const byteFunctionName = "byte-function"

func fuseByteFunctions() property.SubgraphProperty {
	return property.Found(byteFunctionName, 2, func(seed *graph.Node) []*graph.Node {
		if f := followFunction(seed, true); f != nil {
			return f.all
		}
		return nil
	})
}

// fusedByteFunction reads the body of a fused node.
func fusedByteFunction(n *graph.Node) (*byteFunction, *property.Reason) {
	return formOf(n, "function of bytes", func(m *graph.Node) *byteFunction { return readByteFunction(m, true) })
}

func byteFunctionSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	f, why := fusedByteFunction(n)
	if why != nil {
		return nil, why
	}
	return followBytes(n, func(i int) bool { return n.Regions[0].Graph.Inputs[i] == f.x }), nil
}

// table returns the results for all bytes, of a function that is the body of a fused node.
func (f *byteFunction) table(kernels vec.Kernels, quants quant.Kernels) *[256]byte {
	floats, integers := map[*graph.Value][]float32{}, map[*graph.Value][]byte{f.x: make([]byte, 256)}
	for i := range integers[f.x] {
		integers[f.x][i] = byte(i)
	}
	operand := func(v *graph.Value) []float32 {
		if x, ok := fuse.Scalar(v); ok {
			return slices.Repeat([]float32{x}, 256)
		}
		return floats[v]
	}
	for n := range f.q.Graph().Nodes() {
		y, results := n.Outputs[0], make([]float32, 256)
		switch {
		case n.Is("QuantizeLinear"):
			l, _ := levelsBetween(n)
			integers[y] = make([]byte, 256)
			quants.Quantize(integers[y], floats[n.Inputs[0]], l)
		case n.Is("DequantizeLinear"):
			l, _ := levelsBetween(n)
			quants.Dequantize(results, integers[n.Inputs[0]], l)
		case isActivation(n):
			act, _ := activationOf(n)
			kernels.Apply(act.op, results, floats[n.Inputs[0]], act.params)
		default:
			kernels.Binary(floatBinary[n.Op.Name], results, operand(n.Inputs[0]), operand(n.Inputs[1]))
		}
		floats[y] = results
	}
	return (*[256]byte)(integers[f.q.Outputs[0]])
}

func planByteFunction(p *planner, n *graph.Node) error {
	f, why := fusedByteFunction(n)
	if why != nil {
		return why
	}
	results, err := keep(p.e, n, func() (*[256]byte, error) { return f.table(p.kernels, p.integers), nil })
	if err != nil {
		return err
	}
	src, y := p.In(fuse.Outer(n, f.x)), n.Outputs[0]
	dst, count, kernels := p.Out(y), product(p.Dims[y.ID]), p.integers
	const chunk = 4096
	p.emit(step{chunks: ceilDiv(count, chunk), grain: grainFor(chunk * 0.1), body: func(st *state, _, lo, hi int) {
		from, to := lo*chunk, min(hi*chunk, count)
		kernels.Look(st.Bytes(dst)[from:to], st.Bytes(src)[from:to], results)
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register(operators.Pattern(byteFunctionName), operator{Signatures: byteFunctionSignatures, Plan: planByteFunction})
}
