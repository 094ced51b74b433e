package graph

import (
	"fmt"
	"slices"
	"sort"

	"github.com/carve-dev/carve/graph/tensor"
)

// AttrKind tells which field of an Attr holds its value.
type AttrKind uint8

// The kinds of attributes. Graphs are not attributes here: they are the Regions of a node, under their names.
const (
	AttrNone AttrKind = iota
	AttrInt
	AttrFloat
	AttrString
	AttrTensor
	AttrInts
	AttrFloats
	AttrStrings
	AttrTensors
	AttrType
	AttrDims // symbolic integers, of carve's own operators
)

// Attr is a named, typed attribute of a node. It is immutable once it is set on a node.
type Attr struct {
	Name    string
	Kind    AttrKind
	Int     int64
	Float   float32
	Str     string
	Ints    []int64
	Floats  []float32
	Strs    []string
	Tensor  *tensor.Tensor
	Tensors []*tensor.Tensor
	Type    Type
	Dims    []Dim
}

// Attrs is a list of attributes sorted by name, without duplicates.
type Attrs []Attr

// Lookup returns the attribute of that name, or nil.
func (as Attrs) Lookup(name string) *Attr {
	for i := range as { // lists are short
		if as[i].Name == name {
			return &as[i]
		}
	}
	return nil
}

// With returns a copy of the list in which a replaces the attribute of its name.
func (as Attrs) With(a Attr) Attrs {
	out := slices.Clone(as)
	i := sort.Search(len(out), func(i int) bool { return out[i].Name >= a.Name })
	if i < len(out) && out[i].Name == a.Name {
		out[i] = a
		return out
	}
	return slices.Insert(out, i, a)
}

// Without returns a copy of the list that lacks the attribute of that name.
func (as Attrs) Without(name string) Attrs {
	return slices.DeleteFunc(slices.Clone(as), func(a Attr) bool { return a.Name == name })
}

// IntAttr returns an integer attribute.
func IntAttr(name string, v int64) Attr { return Attr{Name: name, Kind: AttrInt, Int: v} }

// FloatAttr returns a float attribute.
func FloatAttr(name string, v float32) Attr { return Attr{Name: name, Kind: AttrFloat, Float: v} }

// StringAttr returns a string attribute.
func StringAttr(name, v string) Attr { return Attr{Name: name, Kind: AttrString, Str: v} }

// IntsAttr returns an integer list attribute.
func IntsAttr(name string, v ...int64) Attr { return Attr{Name: name, Kind: AttrInts, Ints: v} }

// FloatsAttr returns a float list attribute.
func FloatsAttr(name string, v ...float32) Attr { return Attr{Name: name, Kind: AttrFloats, Floats: v} }

// StringsAttr returns a string list attribute.
func StringsAttr(name string, v ...string) Attr { return Attr{Name: name, Kind: AttrStrings, Strs: v} }

// TensorAttr returns a tensor attribute.
func TensorAttr(name string, v *tensor.Tensor) Attr {
	return Attr{Name: name, Kind: AttrTensor, Tensor: v}
}

// Int returns the integer attribute of that name, or def where the node has none.
func (n *Node) Int(name string, def int64) int64 {
	if a := n.Attrs.Lookup(name); a != nil && a.Kind == AttrInt {
		return a.Int
	}
	return def
}

// Float returns the float attribute of that name, or def where the node has none.
func (n *Node) Float(name string, def float32) float32 {
	if a := n.Attrs.Lookup(name); a != nil && a.Kind == AttrFloat {
		return a.Float
	}
	return def
}

// Str returns the string attribute of that name, or def where the node has none.
func (n *Node) Str(name, def string) string {
	if a := n.Attrs.Lookup(name); a != nil && a.Kind == AttrString {
		return a.Str
	}
	return def
}

// Ints returns the integer list attribute of that name; ok is false where the node has none. The slice is shared.
func (n *Node) Ints(name string) (v []int64, ok bool) {
	a := n.Attrs.Lookup(name)
	if a == nil {
		return nil, false
	}
	switch a.Kind {
	case AttrInts:
		return a.Ints, true
	case AttrInt: // some exporters write a list of one as a number
		return []int64{a.Int}, true
	}
	return nil, false
}

// Floats returns the float list attribute of that name, nil where the node has none. The slice is shared.
func (n *Node) Floats(name string) []float32 {
	if a := n.Attrs.Lookup(name); a != nil && a.Kind == AttrFloats {
		return a.Floats
	}
	return nil
}

// Strs returns the string list attribute of that name, nil where the node has none. The slice is shared.
func (n *Node) Strs(name string) []string {
	if a := n.Attrs.Lookup(name); a != nil && a.Kind == AttrStrings {
		return a.Strs
	}
	return nil
}

// TensorAttr returns the tensor attribute of that name, nil where the node has none.
func (n *Node) TensorAttr(name string) *tensor.Tensor {
	if a := n.Attrs.Lookup(name); a != nil && a.Kind == AttrTensor {
		return a.Tensor
	}
	return nil
}

// String returns name=value, tensors by their type.
func (a Attr) String() string {
	switch a.Kind {
	case AttrInt:
		return fmt.Sprintf("%s=%d", a.Name, a.Int)
	case AttrFloat:
		return fmt.Sprintf("%s=%v", a.Name, a.Float)
	case AttrString:
		return fmt.Sprintf("%s=%q", a.Name, a.Str)
	case AttrInts:
		return fmt.Sprintf("%s=%v", a.Name, a.Ints)
	case AttrFloats:
		return fmt.Sprintf("%s=%v", a.Name, a.Floats)
	case AttrStrings:
		return fmt.Sprintf("%s=%q", a.Name, a.Strs)
	case AttrTensor:
		return fmt.Sprintf("%s=%v", a.Name, a.Tensor)
	case AttrType:
		return fmt.Sprintf("%s=%v", a.Name, a.Type)
	case AttrDims:
		return fmt.Sprintf("%s=%v", a.Name, Shape(a.Dims))
	}
	return a.Name
}
