package graph

import "strings"

// Determined reports whether the shapes of a node's operands, with what is known of their contents, determine those of its results. Where the
// results' dims are expressions of the operands' symbols that shows; others are symbols of their own, since expressions would grow
// without end or say little, and a trial tells: it infers the node with 1 for all symbols of its operands.
func Determined(n *Node) bool {
	static, err := tried(n, false)
	return static && err == nil
}

// DeterminedByContents reports whether the shapes of a node's results are not Determined but for elements of integer operands that only a run
// knows: the sizes of a Resize, the limit of a Range.
func DeterminedByContents(n *Node) bool {
	if !hasUnknownContents(n) || Determined(n) {
		return false
	}
	static, err := tried(n, true)
	return static || err != nil // an error, since these are not all 1
}

func hasUnknownContents(n *Node) bool {
	for _, v := range n.Inputs {
		if v.HasUnknown() {
			return true
		}
	}
	return false
}

// HasUnknown reports whether elements of an integer value have symbols that only its data gives values to.
func (v *Value) HasUnknown() bool {
	if v == nil {
		return false
	}
	for _, d := range v.Dims {
		if d.hasUnknown() {
			return true
		}
	}
	return false
}

// tried infers a copy of n with 1 for the symbols of its operands' shapes, and of their contents where these are lengths or contents is
// true, and reports whether that gives numbers for the shapes of all results. A run has found lengths that depend on data where the first
// value has them, before a node can read a shape with them.
func tried(n *Node, contents bool) (static bool, err error) {
	if n.Schema == nil || n.Schema.Infer == nil || len(n.Regions) > 0 {
		return false, nil
	}
	symbols := map[string]bool{}
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		for _, d := range v.Type.Shape {
			d.Symbols(symbols)
		}
		for _, d := range v.Dims {
			if contents || !d.hasUnknown() {
				d.Symbols(symbols)
			}
		}
	}
	ones := make(Bindings, len(symbols))
	for s := range symbols {
		ones[s] = 1
	}
	var d detachment
	sub := shapeValues{b: ones}
	m := d.node(n.Name, len(n.Inputs), len(n.Outputs))
	m.Op, m.Attrs, m.Schema = n.Op, n.Attrs, n.Schema
	for i, v := range n.Inputs {
		if v != nil {
			w := d.operand(i)
			w.Name, w.Type, w.Const = v.Name, v.Type, readable(v)
			w.Type.Shape, w.Dims = sub.put(v.Type.Shape), sub.put(v.Dims)
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			d.result(i, v.Name, v.Type)
		}
	}
	if err := new(Inference).infer(m); err != nil {
		return false, err
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if s, ok := m.Outputs[i].Type.Shape.Static(); !ok || len(s) != len(v.Type.Shape) {
			return false, nil
		}
	}
	return true, nil
}

// BindElement gives b the value of the symbol that d, an unknown element of an integer value, has, and of the dim that it is in shapes, where
// the element is x. Of an expression with a single symbol that b does not have it is a value with which the expression is x: of max(1,s)
// there may be several, so that what else speaks of the symbol has to be verified.
func (d Dim) BindElement(b Bindings, x int64) {
	bind := func(name string, x int64) {
		b[name] = x
		if number, ok := strings.CutPrefix(name, unknownPrefix); ok {
			b["?"+number] = max(x, 0)
		}
	}
	if name, symbol := d.Symbol(); symbol {
		if _, ok := d.asDim(); ok {
			bind(name, x)
		}
		return
	}
	name, ok := d.onlyUnknown(b)
	if !ok {
		return
	}
	at := func(y int64) (int64, bool) {
		b[name] = y
		v, err := d.Eval(b)
		delete(b, name)
		return v, err == nil
	}
	solves := func(y int64) bool {
		v, ok := at(y)
		return ok && v == x
	}
	first, ok1 := at(1)
	second, ok2 := at(2)
	if slope := second - first; ok1 && ok2 && slope != 0 {
		if y := 1 + (x-first)/slope; solves(y) {
			bind(name, y)
			return
		}
	}
	if solves(x) {
		bind(name, x)
	}
}

// onlyUnknown returns the symbol of d that b does not have, where it is the only one and that of an unknown integer.
func (d Dim) onlyUnknown(b Bindings) (name string, ok bool) {
	set := map[string]bool{}
	d.Symbols(set)
	for s := range set {
		if _, bound := b[s]; bound {
			continue
		}
		if name != "" {
			return "", false
		}
		name = s
	}
	number, ok := strings.CutPrefix(name, unknownPrefix)
	return name, ok && number != ""
}
