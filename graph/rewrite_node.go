package graph

import (
	"slices"
	"strings"
)

// Rewrite makes n another operator with other attributes and inputs; results, name, place and provenance stay. Types of
// the results are not inferred. n must have neither captures nor regions; it panics otherwise, which is a programmer's
// error.
func (n *Node) Rewrite(op Op, attrs []Attr, inputs ...*Value) {
	if len(n.Captures) > 0 || len(n.Regions) > 0 {
		panic("graph: rewriting " + n.String() + ", which has regions")
	}
	n.Op = op
	n.Schema = LookupSchema(op.Domain, op.Name, versionFor(n.graph, op))
	if n.Schema != nil {
		n.Op.Since = n.Schema.Since
	}
	n.Attrs = slices.Clone(attrs)
	slices.SortStableFunc(n.Attrs, func(a, b Attr) int { return strings.Compare(a.Name, b.Name) })
	n.SetInputs(inputs...)
	n.SigName, n.Ports = "", nil
}
