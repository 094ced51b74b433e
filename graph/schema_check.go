package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// CheckNode reports whether n satisfies its schema: the number of its inputs and outputs, the names and kinds of its
// attributes and regions, and the types of its operands and results as far as they are known, type variables bound to one
// type each. Nodes without a schema pass. The error is an *InferError.
func CheckNode(n *Node) error {
	if n == nil {
		return errNilNode
	}
	if n.Schema == nil {
		return checkVersion(n)
	}
	var bound []binding
	if err := n.Schema.checkOperands(n, &bound); err != nil {
		return err
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		p := formal(n.Schema.Outputs, i)
		if err := n.Schema.checkPort(n, true, i, p, v.Type, &bound); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion refuses a node of an operator that its operator set does not have yet: nothing would say what it takes and
// gives. Operators that are not known at all are for backends that know them.
func checkVersion(n *Node) error {
	if !ownDomain(domainKey(n.Op.Domain)) {
		return nil
	}
	list := schemaVersions([2]string{domainKey(n.Op.Domain), n.Op.Name})
	if len(list) == 0 {
		return nil
	}
	return nodeError(n, ErrVersion, fmt.Sprintf("at least %d", list[0].Since), "an older one")
}

// binding is what a type variable stands for in a node.
type binding struct {
	name string
	t    Type
}

// checkOperands checks all but the types of the outputs, and leaves in bound what the type variables stand for.
func (s *Schema) checkOperands(n *Node, bound *[]binding) error {
	if err := s.checkArity(n); err != nil {
		return err
	}
	if err := s.checkAttrs(n); err != nil {
		return err
	}
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if err := s.checkPort(n, false, i, formal(s.Inputs, i), v.Type, bound); err != nil {
			return err
		}
	}
	return nil
}

// formal returns the formal parameter of port i, the last one for all ports of a variadic one; nil past the end.
func formal(params []Param, i int) *Param {
	if last := len(params) - 1; i >= last && last >= 0 && params[last].Variadic {
		return &params[last]
	}
	if i < 0 || i >= len(params) {
		return nil
	}
	return &params[i]
}

func (s *Schema) checkArity(n *Node) error {
	given := len(n.Inputs)
	for given > 0 && n.Inputs[given-1] == nil {
		given--
	}
	for i := range s.Inputs {
		p := &s.Inputs[i]
		if n.Input(i) == nil && !p.Optional {
			return portError(n, false, i, ErrArity, "an input", "none")
		}
	}
	if k := len(s.Inputs) - 1; k >= 0 && s.Inputs[k].Variadic {
		given = len(n.Inputs) // none of a list may be left out, the last ones included
	}
	for i := range n.Inputs[:given] {
		p := formal(s.Inputs, i)
		if p == nil {
			return nodeError(n, ErrArity, fmt.Sprintf("at most %d inputs", len(s.Inputs)), fmt.Sprint(given))
		}
		if p.Variadic && n.Inputs[i] == nil {
			return portError(n, false, i, ErrArity, "an input", "none")
		}
	}
	if len(n.Outputs) == 0 && len(s.Outputs) > 0 && !s.Outputs[0].Optional {
		return nodeError(n, ErrArity, "outputs", "none")
	}
	if len(n.Outputs) > len(s.Outputs) && formal(s.Outputs, len(n.Outputs)-1) == nil {
		return nodeError(n, ErrArity, fmt.Sprintf("at most %d outputs", len(s.Outputs)), fmt.Sprint(len(n.Outputs)))
	}
	return nil
}

var attrKindNames = [...]string{
	AttrNone: "graph", AttrInt: "int", AttrFloat: "float", AttrString: "string", AttrTensor: "tensor", AttrInts: "ints",
	AttrFloats: "floats", AttrStrings: "strings", AttrTensors: "tensors", AttrType: "type", AttrDims: "dims",
}

// String returns the kind's name, such as "ints".
func (k AttrKind) String() string {
	if int(k) < len(attrKindNames) {
		return attrKindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

func (s *Schema) checkAttrs(n *Node) error {
	for i := range n.Attrs {
		a := &n.Attrs[i]
		spec := s.attr(a.Name)
		if spec == nil && s.Open {
			continue
		}
		if spec == nil {
			return attrError(n, a.Name, "no such attribute", a.Kind.String())
		}
		if a.Kind != spec.Kind && !(a.Kind == AttrInt && spec.Kind == AttrInts) {
			return attrError(n, a.Name, spec.Kind.String(), a.Kind.String())
		}
		if a.Kind == AttrTensor {
			if a.Tensor == nil {
				return attrError(n, a.Name, "a tensor", "none")
			}
			if err := a.Tensor.Check(); err != nil {
				return attrError(n, a.Name, "a tensor", err.Error())
			}
		}
	}
	for _, r := range n.Regions {
		if spec := s.attr(r.Name); spec == nil || spec.Kind != AttrNone {
			return attrError(n, r.Name, "no such region", "a graph")
		}
	}
	for i := range s.Attrs {
		a := &s.Attrs[i]
		if !a.Required {
			continue
		}
		if a.Kind == AttrNone && n.Region(a.Name) != nil || a.Kind != AttrNone && n.Attrs.Lookup(a.Name) != nil {
			continue
		}
		return attrError(n, a.Name, a.Kind.String(), "none")
	}
	return nil
}

func (s *Schema) attr(name string) *AttrSpec {
	for i := range s.Attrs {
		if s.Attrs[i].Name == name {
			return &s.Attrs[i]
		}
	}
	return nil
}

// checkPort checks one type against the formal parameter and against what its type variable stands for already.
func (s *Schema) checkPort(n *Node, output bool, i int, p *Param, t Type, bound *[]binding) error {
	name := typeName(t)
	if p == nil || name == "" || p.Type == anyType {
		return nil
	}
	list, isVar := s.Types[p.Type]
	switch {
	case !isVar && name != p.Type:
		return portError(n, output, i, ErrTypeMismatch, p.Type, name)
	case !isVar:
		return nil
	case !slices.Contains(list, name) && !slices.Contains(list, anyType) && !s.admitsLater(output, i, name):
		return portError(n, output, i, ErrTypeMismatch, "one of "+capped(strings.Join(list, ", ")), name)
	case p.Hetero:
		return nil
	}
	for _, b := range *bound {
		if b.name == p.Type {
			if have := typeName(b.t); have != name {
				return portError(n, output, i, ErrTypeMismatch, fmt.Sprintf("%s as %s is", have, p.Type), name)
			}
			return nil
		}
	}
	*bound = append(*bound, binding{p.Type, t})
	return nil
}

// Admits reports whether input i takes tensors of an element type. bfloat16 is taken where a later version of the operator takes it there:
// exporters write it into files of operator sets that had it in fewer operators, and it means the same.
func (s *Schema) Admits(i int, dt tensor.DType) bool {
	p, name := formal(s.Inputs, i), typeName(TensorType(dt, nil))
	if p == nil || name == "" {
		return false
	}
	list, isVar := s.Types[p.Type]
	return p.Type == anyType || p.Type == name || isVar && (slices.Contains(list, name) || slices.Contains(list, anyType) || s.admitsLater(false, i, name))
}

// admitsLater reports whether a type is bfloat16, and a later version of an operator of ONNX's admits it for a port.
func (s *Schema) admitsLater(output bool, i int, name string) bool {
	if name != onnxDTypes[tensor.BFloat16] || s.Domain != "" {
		return false
	}
	for _, later := range schemaVersions([2]string{s.Domain, s.Name}) {
		ports := later.Inputs
		if output {
			ports = later.Outputs
		}
		if p := formal(ports, i); later.Since > s.Since && p != nil && slices.Contains(later.Types[p.Type], name) {
			return true
		}
	}
	return false
}

// onnxDTypes are ONNX's names of element types.
var onnxDTypes = [...]string{
	tensor.Float32: "tensor(float)", tensor.Uint8: "tensor(uint8)", tensor.Int8: "tensor(int8)",
	tensor.Uint16: "tensor(uint16)", tensor.Int16: "tensor(int16)", tensor.Int32: "tensor(int32)",
	tensor.Int64: "tensor(int64)", tensor.String: "tensor(string)", tensor.Bool: "tensor(bool)",
	tensor.Float16: "tensor(float16)", tensor.Float64: "tensor(double)", tensor.Uint32: "tensor(uint32)",
	tensor.Uint64: "tensor(uint64)", tensor.Complex64: "tensor(complex64)", tensor.Complex128: "tensor(complex128)",
	tensor.BFloat16: "tensor(bfloat16)", tensor.Float8E4M3FN: "tensor(float8e4m3fn)",
	tensor.Float8E4M3FNUZ: "tensor(float8e4m3fnuz)", tensor.Float8E5M2: "tensor(float8e5m2)",
	tensor.Float8E5M2FNUZ: "tensor(float8e5m2fnuz)", tensor.Uint4: "tensor(uint4)", tensor.Int4: "tensor(int4)",
	tensor.Float4E2M1: "tensor(float4e2m1)", tensor.Float8E8M0: "tensor(float8e8m0)", tensor.Uint2: "tensor(uint2)",
	tensor.Int2: "tensor(int2)",
}

// typeName returns the ONNX type string of t, "" where t is not known well enough.
func typeName(t Type) string { return typeNameDepth(t, 8) }

func typeNameDepth(t Type, depth int) string {
	if depth == 0 {
		return ""
	}
	if t.Kind == KindTensor {
		if int(t.DType) < len(onnxDTypes) {
			return onnxDTypes[t.DType]
		}
		return ""
	}
	if t.Elem == nil {
		return ""
	}
	elem := typeNameDepth(*t.Elem, depth-1)
	if elem == "" {
		return ""
	}
	switch t.Kind {
	case KindSequence:
		return "seq(" + elem + ")"
	case KindOptional:
		return "optional(" + elem + ")"
	case KindMap:
		if int(t.DType) >= len(onnxDTypes) || onnxDTypes[t.DType] == "" {
			return ""
		}
		key := onnxDTypes[t.DType]
		return "map(" + bareType(key) + ", " + bareType(elem) + ")"
	case KindTensor, KindUnknown: // neither has an Elem
	}
	return ""
}

// bareType returns the "float" of "tensor(float)"; other type strings are returned whole.
func bareType(s string) string {
	if rest, ok := strings.CutPrefix(s, "tensor("); ok {
		return rest[:len(rest)-1]
	}
	return s
}

// parseTypeName returns the type of an ONNX type string, with an unknown shape; the zero Type for what is not known.
func parseTypeName(s string) Type {
	inner := func(prefix string) (string, bool) {
		rest, ok := strings.CutPrefix(s, prefix)
		return strings.TrimSuffix(rest, ")"), ok
	}
	if in, ok := inner("seq("); ok {
		e := parseTypeName(in)
		return Type{Kind: KindSequence, Elem: &e}
	}
	if in, ok := inner("optional("); ok {
		e := parseTypeName(in)
		return Type{Kind: KindOptional, Elem: &e}
	}
	if in, ok := inner("map("); ok {
		k, v, _ := strings.Cut(in, ", ")
		e := parseTypeName("tensor(" + v + ")")
		return Type{Kind: KindMap, DType: parseTypeName("tensor(" + k + ")").DType, Elem: &e}
	}
	if i := slices.Index(onnxDTypes[:], s); i > 0 {
		return TensorType(tensor.DType(i), nil)
	}
	return Type{}
}
