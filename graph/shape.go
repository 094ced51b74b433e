package graph

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// Shape is the list of a tensor's dims. A nil Shape has unknown rank; an empty one is a scalar's.
type Shape []Dim

// ShapeOf returns the Shape of numbers.
func ShapeOf(dims ...int) Shape {
	s := make(Shape, len(dims))
	for i, d := range dims {
		s[i] = D(d)
	}
	return s
}

// Known reports whether the rank is known.
func (s Shape) Known() bool { return s != nil }

// Static returns the dims as numbers; ok is false where one is symbolic or the rank unknown.
func (s Shape) Static() (dims []int, ok bool) {
	if s == nil {
		return nil, false
	}
	dims = make([]int, len(s))
	for i, d := range s {
		n, c := d.Const()
		if !c {
			return nil, false
		}
		dims[i] = int(n)
	}
	return dims, true
}

// Backed reports whether the rank is known and the shapes of the graph's inputs determine every dim.
func (s Shape) Backed() bool {
	if s == nil {
		return false
	}
	for _, d := range s {
		if !d.Backed() {
			return false
		}
	}
	return true
}

// Equal reports whether both ranks are known (or both unknown) and all dims equal.
func (s Shape) Equal(o Shape) bool {
	if (s == nil) != (o == nil) || len(s) != len(o) {
		return false
	}
	for i := range s {
		if !s[i].Equal(o[i]) {
			return false
		}
	}
	return true
}

// Eval appends the values of all dims to dst. A negative value gives an error that wraps ErrDimValue.
func (s Shape) Eval(b Bindings, dst []int) ([]int, error) {
	for _, d := range s {
		n, err := d.Eval(b)
		if err != nil {
			return dst, err
		}
		if n < 0 {
			return dst, fmt.Errorf("%w: %v is %d", ErrDimValue, d, n)
		}
		dst = append(dst, int(n))
	}
	return dst, nil
}

// String returns the dims such as "[N,3,224,224]", or "[*]" for an unknown rank.
func (s Shape) String() string {
	if s == nil {
		return "[*]"
	}
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = d.String()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Kind tells what a Type is a type of.
type Kind uint8

// The kinds of types. The zero Kind is a type that is not known.
const (
	KindUnknown Kind = iota
	KindTensor
	KindSequence
	KindOptional
	KindMap
)

// Type is the type of a Value: Tensor(dtype, shape), Sequence(elem), Optional(elem) or Map(key dtype, elem). The zero
// Type is unknown. A Type is immutable; its Shape is shared.
type Type struct {
	Kind  Kind
	DType tensor.DType // of a tensor, or of a map's keys; Invalid where not known
	Shape Shape        // of a tensor
	Elem  *Type        // of sequences, optionals and maps
}

// TensorType returns the type of a tensor.
func TensorType(dt tensor.DType, s Shape) Type { return Type{Kind: KindTensor, DType: dt, Shape: s} }

// TypeOf returns the type of a concrete tensor.
func TypeOf(t *tensor.Tensor) Type {
	if t == nil {
		return Type{}
	}
	return TensorType(t.DType, ShapeOf(t.Shape...))
}

// IsTensor reports whether t is a tensor type.
func (t Type) IsTensor() bool { return t.Kind == KindTensor }

// Backed reports whether t is a tensor whose dims all follow from the graph's input shapes.
func (t Type) Backed() bool { return t.Kind == KindTensor && t.Shape.Backed() }

// Equal reports whether both types are the same.
func (t Type) Equal(o Type) bool {
	if t.Kind != o.Kind || t.DType != o.DType || (t.Elem == nil) != (o.Elem == nil) {
		return false
	}
	if t.Elem != nil {
		return t.Elem.Equal(*o.Elem)
	}
	return t.Shape.Equal(o.Shape)
}

// String returns the form of the graph text: "f32[N,3]", "seq(f32[*])", "opt(i64[])", "map(i64,f32[])" or "?".
func (t Type) String() string {
	elem := "?"
	if t.Elem != nil {
		elem = t.Elem.String()
	}
	switch t.Kind {
	case KindTensor:
		if t.DType == tensor.Invalid {
			return "?" + t.Shape.String()
		}
		return t.DType.String() + t.Shape.String()
	case KindSequence:
		return "seq(" + elem + ")"
	case KindOptional:
		return "opt(" + elem + ")"
	case KindMap:
		return "map(" + t.DType.String() + "," + elem + ")"
	case KindUnknown:
	}
	return "?"
}
