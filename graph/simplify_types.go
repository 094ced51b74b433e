package graph

import "slices"

// Rewrites that give an operator operands of other types, or bring in operators that the model had not, ask here first:
// what computes the same in one type may not exist in another, such as MaxPool of 16-bit integers.

// admits reports whether the version of an operator takes operands of these types and gives results of those; unknown types,
// which stand for omitted ports too, fit everywhere. Operators without a schema take anything.
func (s *Schema) admits(inputs, outputs []Type) bool {
	if s == nil {
		return true
	}
	var bound []binding
	probe := &Node{Op: Op{Domain: s.Domain, Name: s.Name, Since: s.Since}} // errors name it, and are not kept
	for i, t := range inputs {
		if s.checkPort(probe, false, i, formal(s.Inputs, i), t, &bound) != nil {
			return false
		}
	}
	for i, t := range outputs {
		if s.checkPort(probe, true, i, formal(s.Outputs, i), t, &bound) != nil {
			return false
		}
	}
	return true
}

// typesOf returns the types of values, unknown ones for those that are omitted.
func typesOf(vs []*Value) []Type {
	out := make([]Type, len(vs))
	for i, v := range vs {
		if v != nil {
			out[i] = v.Type
		}
	}
	return out
}

// wouldTake reports whether n as it is takes x in the place of its first operand and gives a first result of type y.
func wouldTake(n *Node, x, y Type) bool {
	in, out := typesOf(n.Inputs), typesOf(n.Outputs)
	if len(in) == 0 || len(out) == 0 {
		return false
	}
	in[0], out[0] = x, y
	return n.Schema.admits(in, out)
}

// has reports whether a rewrite may bring in op with operands of these types and a result of that one.
func (s *simplifier) has(op Op, result Type, operands ...Type) bool {
	schema := LookupSchema(op.Domain, op.Name, versionFor(s.g, op))
	return schema != nil && schema.admits(operands, []Type{result})
}

// rewrite makes n another operator, where that is there for these operands and n's result, and reports whether it is.
func (s *simplifier) rewrite(n *Node, op Op, attrs []Attr, inputs ...*Value) bool {
	if !s.has(op, n.Outputs[0].Type, typesOf(inputs)...) {
		return false
	}
	n.Rewrite(op, attrs, inputs...)
	return true
}

// reread gives n other operands, of other types, and its first result the type y, where its operator is there for them. It
// reports whether it is.
func (s *simplifier) reread(n *Node, y Type, inputs []*Value) bool {
	out := typesOf(n.Outputs)
	out[0] = y
	if !n.Schema.admits(typesOf(inputs), out) {
		return false
	}
	for k, v := range slices.Clone(inputs) {
		n.SetOperand(k, v)
	}
	n.Outputs[0].Type = y
	s.stale(n)
	return true
}
