package graph

import (
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// Schema describes one version of an operator: its ports, attributes and types, and how the types of its results follow
// from its operands. Schemas are immutable and shareable.
type Schema struct {
	Domain  string
	Name    string
	Since   int // operator set since which this version exists
	Inputs  []Param
	Outputs []Param
	Attrs   []AttrSpec
	// Types maps type variables to the ONNX type strings that they admit, such as "tensor(float)".
	Types map[string][]string
	// Infer sets the types of the results. It may be nil: results are then unknown.
	Infer func(*Inference) error
	// Deprecated marks a version that ONNX has withdrawn; models that still use it are understood.
	Deprecated bool
	// Random marks operators whose results are not a function of their operands: never folded, never merged.
	Random bool
	// Open admits attributes beside Attrs: those that properties give to the nodes that they make.
	Open bool
	// Evaluator computes nodes of an operator that brings its own kernel, for who has none for it: folding, fallbacks, checks
	// and the backend of last resort. nil for the operators that these know.
	Evaluator Evaluator
}

// Param is one formal input or output.
type Param struct {
	Name     string
	Type     string // a type variable or an ONNX type string
	Optional bool
	Variadic bool // the last one only: any number, at least one unless Optional
	Hetero   bool // of a variadic one: types may differ
}

// AttrSpec is one formal attribute.
type AttrSpec struct {
	Name     string
	Kind     AttrKind // AttrNone for graphs, which are regions
	Required bool
	Default  *Attr // nil where there is none
	Declares bool  // of a graph: its inputs are what it declares, and not what operands of the node are
}

// Inference is what a schema's Infer sees of a node: types, constants and known integer contents of the operands. It
// writes results through SetType and SetDims. InferNode makes it, and it is of use until Infer returns: the next node may get
// the same one. The zero Inference has no node, and its methods panic.
type Inference struct {
	Node  *Node
	g     *Graph
	bound []binding  // what the type variables of the schema stand for
	held  []Dim      // known elements, before this inference, of the output whose type was set last
	mark  int32      // number of the last fresh symbol before this inference
	first [2]binding // storage of the one or two type variables that most schemas have
}

// NumInputs returns the number of inputs, omitted ones included.
func (c *Inference) NumInputs() int { return len(c.Node.Inputs) }

// NumOutputs returns the number of outputs, omitted ones included.
func (c *Inference) NumOutputs() int { return len(c.Node.Outputs) }

// Has reports whether input i is present.
func (c *Inference) Has(i int) bool { return c.Node.Input(i) != nil }

// Type returns the type of input i, unknown where it is omitted.
func (c *Inference) Type(i int) Type {
	if v := c.Node.Input(i); v != nil {
		return v.Type
	}
	return Type{}
}

// DType returns the element type of tensor input i.
func (c *Inference) DType(i int) tensor.DType { return c.Type(i).DType }

// Shape returns the shape of tensor input i, nil where it is unknown.
func (c *Inference) Shape(i int) Shape { return c.Type(i).Shape }

// Const returns the data of input i where it is a constant, else nil. Constants are seen through the captures of regions.
func (c *Inference) Const(i int) *tensor.Tensor { return constOf(c.Node.Input(i)) }

// Dims returns the elements of integer input i of rank 0 or 1 where they are known as expressions.
func (c *Inference) Dims(i int) (dims []Dim, ok bool) {
	v := c.Node.Input(i)
	if v == nil || v.Dims == nil {
		return nil, false
	}
	return v.Dims, true
}

// Fresh returns a new unbacked symbol.
func (c *Inference) Fresh() Dim { return c.g.Fresh() }

// SetType sets the type of output i; it is ignored where the output is omitted. Dims that are unbacked or too complex
// give way to what was known of the output before, from the model's value_info, say.
func (c *Inference) SetType(i int, t Type) {
	if v := c.Node.Output(i); v != nil {
		v.Type = c.mergeTypes(v.Type, t)
		if c.held = v.Dims; v.Dims != nil && !namesOnly(v) {
			v.Dims = nil
		}
	}
}

// namesOnly reports whether nothing is known of the elements of a value but their number, and they have symbols, which they keep.
func namesOnly(v *Value) bool {
	if n, ok := numElements(v.Type.Shape); !ok || !n.Is(int64(len(v.Dims))) {
		return false
	}
	return !slices.ContainsFunc(v.Dims, func(d Dim) bool { _, ok := d.asDim(); return !ok })
}

// SetDims sets the elements of integer output i that are known, right after its type. The others get symbols of their own, the same
// as in an earlier inference; where none is known it sets nothing.
func (c *Inference) SetDims(i int, dims []Dim) {
	v := c.Node.Output(i)
	if v == nil || len(dims) > maxDimsContent {
		return
	}
	blank := func(d Dim) bool { return d.Equal(unknown) || d.TooComplex() }
	if len(dims) > 0 && !slices.ContainsFunc(dims, func(d Dim) bool { return !blank(d) }) {
		return // what they were named stays
	}
	v.Dims = dims
	if !slices.ContainsFunc(dims, blank) {
		return
	}
	v.Dims = slices.Clone(dims)
	for k, d := range dims {
		if !blank(d) {
			continue
		}
		if v.Dims[k] = c.g.fresh(unknownPrefix); len(c.held) == len(dims) {
			if _, ok := c.held[k].asDim(); ok {
				v.Dims[k] = c.held[k]
			}
		}
	}
}

// maxDimsContent bounds the length of integer contents that inference follows.
const maxDimsContent = 64

// mergeTypes returns what is known of a value whose type was old and is now inferred to be t: the inferred part wins
// where it is a number or an expression of bound symbols, the old one fills what is unknown.
func (c *Inference) mergeTypes(old, t Type) Type {
	if t.Kind == KindUnknown {
		return old
	}
	if t.Kind == KindTensor {
		if old.Kind != KindTensor {
			old = Type{}
		}
		if t.DType == tensor.Invalid {
			t.DType = old.DType
		}
		t.Shape = c.mergeShapes(old.Shape, t.Shape)
		return t
	}
	if old.Kind != t.Kind || old.Elem == nil {
		return t
	}
	if t.DType == tensor.Invalid {
		t.DType = old.DType
	}
	if t.Elem == nil {
		t.Elem = old.Elem
	} else {
		m := c.mergeTypes(*old.Elem, *t.Elem)
		t.Elem = &m
	}
	return t
}

// mergeShapes fills unknown dims of s from old. A dim of s that only this inference names gives way to any old one, others
// that no input binds to numbers alone, so that dims that are equal stay so. Symbols of old that no graph input binds are
// names of the exporter's for what it did not know either; they become unbacked.
func (c *Inference) mergeShapes(old, s Shape) Shape {
	if s == nil {
		if old == nil {
			return nil
		}
		s = make(Shape, len(old))
		for i, d := range old {
			s[i] = c.bounded(c.trusted(d))
		}
		return s
	}
	out := s
	for i, d := range s {
		if d.Backed() && !d.TooComplex() {
			continue
		}
		if x, ok := d.asDim(); ok {
			d = x
		}
		was := d
		if len(old) == len(s) {
			_, number := old[i].Const()
			_, symbol := old[i].Symbol() // an expression may speak of symbols that no value has any more
			if number || c.isFresh(d) || vague(d) && (symbol || old[i].Backed()) {
				was = c.trusted(old[i])
			}
		}
		was = c.bounded(was)
		if was.Equal(s[i]) {
			continue
		}
		if &out[0] == &s[0] {
			out = append(Shape(nil), s...)
		}
		out[i] = was
	}
	return out
}

// bounded returns d, or a fresh symbol where d is too vague for a shape.
func (c *Inference) bounded(d Dim) Dim {
	if vague(d) {
		return c.Fresh()
	}
	return d
}

// vague reports whether an expression says less than a symbol, which the first result of such a shape determines: it is too complex,
// speaks of unknown integers, or computes with what dims that depend on data are broadcast to, as layer after layer does with what the one
// before has added.
func vague(d Dim) bool {
	if d.TooComplex() || d.hasUnknown() {
		return true
	}
	if at, ok := d.atom(); ok && at.kind == atomBroadcast {
		return at.a.broadcastsLate() || at.b.broadcastsLate()
	}
	return d.broadcastsLate()
}

// isFresh reports whether d is a symbol that was made since this inference began.
func (c *Inference) isFresh(d Dim) bool {
	name, ok := d.Symbol()
	if !ok || !strings.HasPrefix(name, "?") {
		return false
	}
	k, err := strconv.Atoi(name[1:])
	return err == nil && k > int(c.mark)
}

// trusted returns d where a run can evaluate it, else a fresh symbol.
func (c *Inference) trusted(d Dim) Dim {
	if _, ok := d.Const(); ok {
		return d
	}
	names := map[string]bool{}
	d.Symbols(names)
	bound := c.g.inputSymbols()
	for name := range names {
		if !strings.HasPrefix(name, "?") && !bound[name] {
			return c.Fresh()
		}
	}
	return d
}

// outermost returns the graph that g is nested in, g itself for a top-level graph.
func (g *Graph) outermost() *Graph {
	for g.owner != nil {
		g = g.owner.graph
	}
	return g
}

// inputSymbols returns the symbols of the inputs of the outermost graph.
func (g *Graph) inputSymbols() map[string]bool {
	g = g.outermost()
	set := map[string]bool{}
	for _, v := range g.Inputs {
		for _, d := range v.Type.Shape {
			d.Symbols(set)
		}
	}
	return set
}
