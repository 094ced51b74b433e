package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Strings have no bytes that a plan could place. Columns and views of them are read where they lie in an input of the group, and
// what the group makes is Go's: outputs that are allocated in each run, and lists that belong to a session.

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
	if v.IsConst() {
		return property.Because(property.DTypeReason, "strings %v are constant", v)
	}
	return nil
}

// texts is where the strings of a value lie: every step-th from first on, of an input of the group, or of what the group makes for a value.
type texts struct {
	input, value int // one of them is -1
	first, step  int
}

// textsOf says where the strings of a value lie.
func (p *planner) textsOf(v *graph.Value) (texts, error) {
	n := v.Producer
	switch {
	case n == nil:
		return texts{input: slices.Index(p.Sub.Inputs, v), value: -1, step: 1}, nil
	case place.IsView(n):
		return p.textsOf(n.Inputs[0])
	case isColumn(n):
		t, err := p.textsOf(n.Inputs[0])
		if err != nil {
			return t, err
		}
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
	return texts{input: -1, value: v.ID, step: 1}, nil
}

// list returns the strings among which those of a value are.
func (t texts) list(st *state) []string {
	if t.input >= 0 {
		return st.a.Inputs[t.input].Strings
	}
	return st.texts[t.value]
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
			if st.texts[m.value] == nil {
				st.texts[m.value] = make([]string, product(m.dims))
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

// isColumn reports whether a node takes one column of a matrix, which one is known when shapes are.
func isColumn(n *graph.Node) bool {
	if len(n.Inputs) != 2 || len(n.Inputs[0].Type.Shape) != 2 || !place.Told(n, n.Inputs[1]) || len(n.Inputs[1].Dims) != 1 {
		return false
	}
	return n.Op.Domain == "ai.onnx.ml" && n.Op.Name == "ArrayFeatureExtractor" || n.Is("Gather") && axisOf(n, 0, 2) == 1
}

func isTextView(n *graph.Node) bool { return place.IsView(n) || isColumn(n) }

// textViewSignatures takes columns and views of strings in front of operators that look strings up.
func textViewSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !isTextView(n) || !isText(n.Inputs[0]) {
		return nil, property.Because(property.DTypeReason, "%v of strings", n.Op)
	}
	if !looksUp(n.Outputs[0]) {
		return nil, property.Because(property.NotSelected, "nothing looks strings of %v up", n.Outputs[0])
	}
	return operators.RowMajor(n), nil
}

// looksUp reports whether strings are looked up in kernels, behind columns and views perhaps.
func looksUp(v *graph.Value) bool {
	for _, u := range v.Uses() {
		n := u.Node
		switch {
		case place.IsView(n) || isColumn(n):
			if looksUp(n.Outputs[0]) {
				return true
			}
		default:
			if op, ok := textTable.Lookup(n); ok {
				if _, why := op.Signatures(n); why == nil {
					return true
				}
			}
		}
	}
	return false
}

// planTextView emits a copy where a view is an output of the group.
func planTextView(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	from, err := p.textsOf(y)
	if err != nil || !y.IsOutput() {
		return err
	}
	p.emit(step{chunks: product(p.Dims[y.ID]), grain: grainFor(3), body: func(st *state, _, lo, hi int) {
		list, out := from.list(st), st.texts[y.ID]
		for i := lo; i < hi; i++ {
			out[i] = list[from.first+i*from.step]
		}
	}}, []place.Memory{p.In(n.Inputs[0])}, nil)
	return nil
}

func init() {
	for _, name := range append(slices.Clone(place.Views), "Gather", operators.Of("ai.onnx.ml", "ArrayFeatureExtractor")) {
		textTable.Register(name, operator{Signatures: textViewSignatures, Plan: planTextView})
	}
	textTable.Register(operators.Of("ai.onnx.ml", "LabelEncoder"), operator{Signatures: labelSignatures, Plan: planLabelEncoder})
	textTable.Register(operators.Of("ai.onnx.ml", "OneHotEncoder"), operator{Signatures: oneHotSignatures, Plan: planOneHotEncoder, Strided: oneHotStrided})
}
