package graph

import "github.com/carve-dev/carve/graph/tensor"

// Schema describes one version of an operator: its ports, attributes and types, and how the types of its results follow
// from its operands. Schemas are immutable and shareable.
type Schema struct {
	Domain  string
	Name    string
	Since   int // operator set version since which this form exists
	Inputs  []Param
	Outputs []Param
	Attrs   []AttrSpec
	// Types maps type variables to the ONNX type strings that they admit, such as "tensor(float)".
	Types map[string][]string
	// Infer sets the types of the results. It may be nil: results are then unknown.
	Infer func(*Inference) error
	// Deprecated marks a form that ONNX has withdrawn; models that still use it are understood.
	Deprecated bool
	// Random marks operators whose results are not a function of their operands: never folded, never merged.
	Random bool
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
}

// Inference is what a schema's Infer sees of a node: types, constants and known integer contents of the operands. It
// writes results through SetType and SetDims.
type Inference struct {
	Node *Node
	g    *Graph
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

// Const returns the data of input i where it is a constant, else nil.
func (c *Inference) Const(i int) *tensor.Tensor {
	if v := c.Node.Input(i); v != nil {
		return v.Const
	}
	return nil
}

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

// SetType sets the type of output i; it is ignored where the output is omitted.
func (c *Inference) SetType(i int, t Type) {
	if v := c.Node.Output(i); v != nil {
		v.Type = mergeTypes(v.Type, t)
	}
}

// SetDims sets the known elements of integer output i.
func (c *Inference) SetDims(i int, dims []Dim) {
	if v := c.Node.Output(i); v != nil && len(dims) <= maxDimsContent {
		for _, d := range dims {
			if d.TooComplex() {
				return
			}
		}
		v.Dims = dims
	}
}

// maxDimsContent bounds the length of integer contents that inference follows.
const maxDimsContent = 64

// mergeTypes returns what is known of a value whose type was old (from the model's value_info, say) and is now inferred
// to be t: the inferred part wins where it is a number or an expression of bound symbols, the old one fills what is
// unknown.
func mergeTypes(old, t Type) Type {
	if t.Kind == KindUnknown {
		return old
	}
	if old.Kind != t.Kind {
		return t
	}
	if t.Kind != KindTensor {
		if t.Elem == nil || (t.Elem.Kind == KindUnknown && old.Elem != nil) {
			t.Elem = old.Elem
		} else if old.Elem != nil {
			m := mergeTypes(*old.Elem, *t.Elem)
			t.Elem = &m
		}
		return t
	}
	if t.DType == tensor.Invalid {
		t.DType = old.DType
	}
	return t
}
