package graph

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// Modernize makes nodes of operator sets 1 to 6 nodes of the next version of their operators that says the same in words that later
// versions kept: broadcasting is that of NumPy, in-place hints are gone, shapes are operands. Operands are unsqueezed where they were
// aligned with an axis. Types have to be inferred, and are so afterwards. What the later version cannot say, and what is not known
// well enough, stays as it is: BatchNormalization that learns, Tile and Split by operands that are no constants, a broadcast between
// values of unknown ranks. Scales of a vector's elements, of any version, are along its only axis. It takes O(V).
func Modernize(g *Graph) error {
	var list []*Node
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			if err := Modernize(r.Graph); err != nil {
				return err
			}
		}
		if scalesOfVector(n) {
			n.Attrs = n.Attrs.With(IntAttr("axis", 0))
		}
		if o, ok := older[n.Op.Name]; ok && n.Op.Domain == "" && n.Schema != nil && n.Schema.Since < o.since && len(n.Outputs) > 0 && n.Outputs[0] != nil {
			list = append(list, n)
		}
	}
	for _, n := range list {
		m := &modernizer{n: n, attrs: slices.Clone(n.Attrs), in: slices.Clone(n.Inputs), since: older[n.Op.Name].since}
		m.drop("consumed_inputs")
		if say := older[n.Op.Name].say; say != nil && !say(m) {
			continue
		}
		n.Rewrite(Op{Name: n.Op.Name, Since: m.since}, m.attrs, m.in...)
		if err := InferNode(n); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	return g.Sort() // for what stands before nodes
}

// modernizer holds what a node is to become.
type modernizer struct {
	n     *Node
	attrs []Attr
	in    []*Value
	since int
}

// older says from which version on an operator needs nothing more, and how nodes from before are said in it, nil where they say the
// same. A function reports false, having changed nothing of the graph, where that cannot be.
var older = func() map[string]olderOp {
	t := map[string]olderOp{
		"Selu":               {6, (*modernizer).selu},
		"Cast":               {6, (*modernizer).cast},
		"Concat":             {4, func(m *modernizer) bool { m.assume(IntAttr("axis", 1)); return true }},
		"Reshape":            {5, (*modernizer).reshape},
		"Split":              {2, (*modernizer).split},
		"Tile":               {6, (*modernizer).tile},
		"Pad":                {2, (*modernizer).pad},
		"Gemm":               {7, func(m *modernizer) bool { m.drop("broadcast"); return true }},
		"BatchNormalization": {7, (*modernizer).batchNorm},
		"PRelu":              {7, (*modernizer).slope},
		"AveragePool":        {7, nil},
		"LpPool":             {2, (*modernizer).norm},
		"GlobalLpPool":       {2, (*modernizer).norm},
		"Upsample":           {7, (*modernizer).upsample},
	}
	for _, name := range []string{"Abs", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean", "Min",
		"Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh"} {
		t[name] = olderOp{6, nil}
	}
	for _, name := range []string{"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"} {
		t[name] = olderOp{7, (*modernizer).broadcast}
	}
	for _, name := range []string{"RNN", "GRU", "LSTM"} { // the result of all steps is there whether it is asked for or not
		t[name] = olderOp{7, func(m *modernizer) bool { m.drop("output_sequence"); return true }}
	}
	return t
}()

type olderOp struct {
	since int
	say   func(*modernizer) bool
}

func (m *modernizer) drop(name string) {
	m.attrs = slices.DeleteFunc(m.attrs, func(a Attr) bool { return a.Name == name })
}

func (m *modernizer) set(a Attr) {
	m.drop(a.Name)
	m.attrs = append(m.attrs, a)
}

// assume sets an attribute that the node does not have.
func (m *modernizer) assume(a Attr) {
	if m.n.Attrs.Lookup(a.Name) == nil {
		m.set(a)
	}
}

// ints makes a constant operand.
func (m *modernizer) ints(v []int64) *Value { return m.n.Graph().AddConst("", tensor.From(v)) }

// numbers returns the elements of a constant operand, as whole numbers.
func (m *modernizer) numbers(i int) ([]int64, bool) {
	v := m.n.Input(i)
	if v == nil || v.Const == nil || v.Const.Len() > 1<<10 {
		return nil, false
	}
	list, out := make([]float64, v.Const.Len()), make([]int64, v.Const.Len())
	if tensor.Decode(list, v.Const) != nil {
		return nil, false
	}
	for k, f := range list {
		if out[k] = int64(f); float64(out[k]) != f {
			return nil, false
		}
	}
	return out, true
}

// unsqueeze puts dims of 1 into operand i.
func (m *modernizer) unsqueeze(i int, axes []int64) bool {
	n := m.n.Graph().AddNode(NodeSpec{Op: Op{Name: "Unsqueeze", Since: 1}, Attrs: []Attr{IntsAttr("axes", axes...)}, Inputs: []*Value{m.in[i]},
		Outputs: []string{""}, Origins: []string{}})
	m.in[i] = n.Outputs[0]
	return InferNode(n) == nil
}

// broadcast aligns the second operand with the axis of the first that the node names, with its last one otherwise.
func (m *modernizer) broadcast() bool {
	axis := m.n.Attrs.Lookup("axis")
	m.drop("broadcast")
	m.drop("axis")
	if axis == nil || m.n.Int("broadcast", 0) == 0 || len(m.in) != 2 || m.in[0] == nil || m.in[1] == nil {
		return len(m.in) == 2
	}
	a, b := m.in[0].Type.Shape, m.in[1].Type.Shape
	if a == nil || b == nil {
		return false
	}
	first := axis.Int
	if first < 0 {
		first += int64(len(a))
	}
	last := first + int64(len(b))
	if first < 0 || last > int64(len(a)) || len(a) > 1<<10 {
		return false
	}
	var axes []int64
	for d := len(b); d < len(a)-int(first); d++ {
		axes = append(axes, int64(d))
	}
	return len(axes) == 0 || m.unsqueeze(1, axes)
}

// slope aligns one slope a channel with the axis of channels.
func (m *modernizer) slope() bool {
	if len(m.in) != 2 || m.in[0] == nil || m.in[1] == nil || m.in[0].Type.Shape == nil || m.in[1].Type.Shape == nil {
		return false
	}
	rank, own := len(m.in[0].Type.Shape), len(m.in[1].Type.Shape)
	if own != 1 || rank < 3 || rank > 1<<10 {
		return true
	}
	var axes []int64
	for d := 1; d < rank-1; d++ {
		axes = append(axes, int64(d))
	}
	return m.unsqueeze(1, axes)
}

func (m *modernizer) selu() bool {
	m.assume(FloatAttr("alpha", 1.6732))
	m.assume(FloatAttr("gamma", 1.0507))
	return true
}

// cast gives the type as a number that was given as a name.
func (m *modernizer) cast() bool {
	m.set(IntAttr("to", int64(m.n.Outputs[0].Type.DType)))
	return m.n.Outputs[0].Type.DType != tensor.Invalid
}

func (m *modernizer) reshape() bool {
	shape, ok := m.n.Ints("shape")
	if !ok || len(m.in) != 1 {
		return false
	}
	m.drop("shape")
	m.in = append(m.in, m.ints(shape))
	return true
}

func (m *modernizer) split() bool {
	if m.n.Input(1) == nil {
		m.in = m.in[:1]
		return true
	}
	sizes, ok := m.numbers(1)
	if ok {
		m.in = m.in[:1]
		m.set(IntsAttr("split", sizes...))
	}
	return ok
}

// tile repeats along one axis.
func (m *modernizer) tile() bool {
	tiles, ok := m.numbers(1)
	axis, ok2 := m.numbers(2)
	shape := m.n.Inputs[0].Type.Shape
	if !ok || !ok2 || len(tiles) != 1 || len(axis) != 1 || shape == nil || axis[0] < -int64(len(shape)) || axis[0] >= int64(len(shape)) {
		return false
	}
	repeats := make([]int64, len(shape))
	for i := range repeats {
		repeats[i] = 1
	}
	repeats[(int(axis[0])+len(shape))%len(shape)] = tiles[0]
	m.in = []*Value{m.in[0], m.ints(repeats)}
	return true
}

func (m *modernizer) pad() bool {
	pads, ok := m.n.Ints("paddings")
	m.drop("paddings")
	m.set(IntsAttr("pads", pads...))
	return ok
}

// batchNorm is one that has learnt: results that only learning has are not read.
func (m *modernizer) batchNorm() bool {
	m.drop("is_test")
	return onlyFirst(m.n) && len(m.n.Outputs) == 1
}

// norm has a whole number as its exponent.
func (m *modernizer) norm() bool {
	p := m.n.Float("p", 2)
	if m.n.Op.Name == "LpPool" && m.n.Attrs.Lookup("kernel_shape") == nil || p != float32(math.Trunc(float64(p))) || p < 1 || p > 1<<20 {
		return false
	}
	m.set(IntAttr("p", int64(p)))
	return true
}

// upsample has a factor for every axis.
func (m *modernizer) upsample() bool {
	h, w := m.n.Float("height_scale", 0), m.n.Float("width_scale", 0)
	m.drop("height_scale")
	m.drop("width_scale")
	m.set(FloatsAttr("scales", 1, 1, h, w))
	if m.n.Str("mode", "nearest") == "bilinear" {
		m.set(StringAttr("mode", "linear"))
	}
	return true
}
