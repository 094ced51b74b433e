package cpu

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Strings have no bytes that a plan could place. Columns and views of them are read where they lie in an input of the group or in a
// constant, and what the group makes is Go's: outputs that are allocated in each run, and lists that belong to a session.

// textTable has the operators of nodes that read or make strings.
var textTable = operators.Table[func(n *graph.Node) ([]graph.Signature, *property.Reason), *planner]{}

func isText(v *graph.Value) bool {
	return v != nil && v.Type.IsTensor() && v.Type.DType == tensor.String
}

// hasTexts reports whether a node reads or makes strings.
func hasTexts(n *graph.Node) bool {
	return slices.ContainsFunc(n.Inputs, isText) || slices.ContainsFunc(n.Outputs, isText)
}

// unfitText is unfit for such nodes.
func unfitText(v *graph.Value) *property.Reason {
	if !isText(v) {
		return unfit(v)
	}
	if !v.Type.Shape.Known() {
		return property.Because(property.DynamicShape, "the rank of %v depends on data", v)
	}
	return nil
}

// texts is where the strings of a value lie: every step-th from first on of those of its origin.
type texts struct {
	from        textOrigin
	index       int // of an input or a constant of the group; of what the group makes, the value's id
	first, step int
}

// textOrigin says what the strings of a value are taken from.
type textOrigin int

const (
	fromInput textOrigin = iota
	fromConstant
	fromStep
)

// textsOf says where the strings of a value lie. Columns and views, which are planned in front of their readers, have noted theirs.
func (p *planner) textsOf(v *graph.Value) texts {
	if t, ok := p.texts[v.ID]; ok {
		return t
	}
	t := texts{from: fromStep, index: v.ID, step: 1}
	switch {
	case v.IsConst():
		t.from, t.index = fromConstant, p.Slots[p.In(v).Slot].Index
	case v.Producer == nil:
		t.from, t.index = fromInput, slices.Index(p.Sub.Inputs, v)
	}
	return p.noteTexts(v, t)
}

// noteTexts keeps where the strings of a value lie.
func (p *planner) noteTexts(v *graph.Value, t texts) texts {
	if p.texts == nil {
		p.texts = map[int]texts{}
	}
	p.texts[v.ID] = t
	return t
}

// column returns where the strings of a column lie that a node takes of its first operand.
func (p *planner) column(n *graph.Node) (texts, error) {
	t := p.textsOf(n.Inputs[0])
	list, err := p.Ints(n.Inputs[1])
	if err != nil {
		return t, err
	}
	at, columns := list[0], p.Dims[n.Inputs[0].ID][1]
	if at < 0 && n.Is("Gather") {
		at += columns
	}
	if at < 0 || at >= columns {
		return t, property.Because(property.ShapeReason, "column %d of %d", at, columns)
	}
	t.first, t.step = t.first+at*t.step, t.step*columns
	return t, nil
}

// laidTexts says how the strings of a value lie in the list of their origin, from the first on.
func (p *planner) laidTexts(v *graph.Value) laid {
	d, step := p.Dims[v.ID], p.textsOf(v).step
	strides := make([]int, len(d))
	for k := len(d) - 1; k >= 0; k-- {
		strides[k], step = step, step*d[k]
	}
	return laid{d, strides}
}

// list returns the strings among which those of a value are.
func (t texts) list(st *state) []string {
	switch t.from {
	case fromInput:
		return st.a.Inputs[t.index].Strings
	case fromConstant:
		return st.a.Constants[t.index].Strings
	case fromStep:
	}
	return st.texts[t.index]
}

// madeText is a value of strings that a group makes.
type madeText struct {
	value, output int // by id; number among the outputs, -1 for none
	dims          []int
}

// madeTexts returns the strings that nodes make: all but those that are read elsewhere, and are no outputs.
func (p *planner) madeTexts() []madeText {
	var list []madeText
	for _, n := range p.Order {
		for _, v := range n.Outputs {
			if isText(v) && (v.IsOutput() || !isTextView(n)) {
				list = append(list, madeText{v.ID, slices.Index(p.Sub.Outputs, v), p.Dims[v.ID]})
			}
		}
	}
	return list
}

// makeTexts gives the strings that the instance makes a place for this run.
func (st *state) makeTexts() error {
	for _, m := range st.in.texts {
		for len(st.texts) <= m.value {
			st.texts = append(st.texts, nil)
		}
		if m.output < 0 {
			n := product(m.dims)
			if err := st.reserve(int64(n) * int64(unsafe.Sizeof(""))); err != nil {
				return err
			}
			if st.texts[m.value] == nil {
				st.texts[m.value] = make([]string, n)
			}
			continue
		}
		t, err := st.a.Alloc(m.output, tensor.String, m.dims)
		if err != nil {
			return err
		}
		st.texts[m.value] = t.Strings
	}
	return nil
}

// reserve tells of memory that strings are about to take; the error says that the caller has no room for it. It is given back when the run
// ends. It is safe for concurrent use.
func (st *state) reserve(bytes int64) error {
	if st.a.Reserve == nil || bytes == 0 {
		return nil
	}
	if err := st.a.Reserve(bytes); err != nil {
		return err
	}
	st.reserved.Add(bytes)
	return nil
}

// dropTexts lets go of the outputs' strings, which are the caller's.
func (st *state) dropTexts() {
	for _, m := range st.in.texts {
		if m.output >= 0 && m.value < len(st.texts) {
			st.texts[m.value] = nil
		}
	}
}

// isColumn reports whether a node takes one column of a matrix, which one is known when shapes are.
func isColumn(n *graph.Node) bool {
	if len(n.Inputs) != 2 || len(n.Inputs[0].Type.Shape) != 2 || !place.Told(n, n.Inputs[1]) || len(n.Inputs[1].Dims) != 1 {
		return false
	}
	return n.Op.Domain == "ai.onnx.ml" && n.Op.Name == "ArrayFeatureExtractor" || n.Is("Gather") && axisOf(n, 0, 2) == 1
}

func isTextView(n *graph.Node) bool { return place.IsView(n) || isColumn(n) }

// takeTextSignatures takes columns and views of strings, and elements by their places.
func takeTextSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	switch {
	case !isText(n.Inputs[0]):
		return nil, property.Because(property.DTypeReason, "%v of strings", n.Op)
	case isTextView(n):
		return operators.RowMajor(n), nil
	case n.Is("Gather"):
		return gatherSignatures(n)
	case n.Op.Domain == "ai.onnx.ml":
		return extractSignatures(n)
	}
	return nil, property.Because(property.NotSelected, "%v is more than a view", n)
}

// planTakeText notes where the strings of columns and views lie, and emits a copy where they are an output of the group.
func planTakeText(p *planner, n *graph.Node) error {
	if !isTextView(n) {
		return planGatherTexts(p, n)
	}
	x, y := n.Inputs[0], n.Outputs[0]
	from, err := p.textsOf(x), error(nil)
	if !place.IsView(n) {
		from, err = p.column(n)
	}
	p.noteTexts(y, from)
	if err != nil || !y.IsOutput() {
		return err
	}
	p.emit(step{chunks: product(p.Dims[y.ID]), grain: grainFor(3), body: func(st *state, _, lo, hi int) {
		copyTexts(st.texts[y.ID][lo:hi], 1, from.list(st), from.first+lo*from.step, from.step)
	}}, []place.Memory{p.In(x)}, nil)
	return nil
}

func init() {
	for _, name := range append(slices.Clone(place.Views), "Gather", operators.Of("ai.onnx.ml", "ArrayFeatureExtractor")) {
		textTable.Register(name, operator{Signatures: takeTextSignatures, Plan: planTakeText})
	}
	textTable.Register("Concat", operator{Signatures: textSignatures, Plan: planConcatTexts})
	for _, name := range []string{"Slice", "Split", "Tile", "Expand", "Transpose"} {
		textTable.Register(name, operator{Signatures: textCopySignatures, Plan: planTextCopy})
	}
	textTable.Register("StringConcat", operator{Signatures: textSignatures, Plan: planStringConcat})
	textTable.Register("Cast", operator{Signatures: numeralSignatures, Plan: planNumerals})
	textTable.Register("Where", operator{Signatures: textSignatures, Plan: planWhereTexts})
	textTable.Register(operators.Of("ai.onnx.ml", "LabelEncoder"), operator{Signatures: labelSignatures, Plan: planLabelEncoder})
	textTable.Register(operators.Of("ai.onnx.ml", "OneHotEncoder"), operator{Signatures: oneHotSignatures, Plan: planOneHotEncoder, Strided: oneHotStrided})
}
