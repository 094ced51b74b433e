package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// foldConstants computes nodes whose operands are constants, and replaces each If whose condition is known by the
// arm that it chooses. Random operators, nodes with other regions, carve's own operators and unknown ones stay, and so does an
// Einsum that lowerEinsums makes products of, for those to be folded.
func (s *simplifier) foldConstants() error {
	var f foldedTwins
	return s.each(func(n *Node) error {
		switch {
		case len(n.Regions) > 0:
			s.chooseArm(n)
			return nil
		case n.Schema == nil || isRandomNode(n) || n.Op.Domain == CarveDomain || len(n.Outputs) == 0 || s.failed[n] || s.lowersEinsum(n):
			return nil
		case n.Is("Constant") && constantOf(n) != nil:
			s.becomeConstants(n, []tensor.Value{constantOf(n)})
			return nil
		}
		if s.kept(n) || s.o.Evaluator == nil || slices.ContainsFunc(n.Inputs, func(v *Value) bool { return v != nil && v.Const == nil }) || !s.worthwhile(n) {
			return nil
		}
		inputs := make([]tensor.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				inputs[i] = v.Const
			}
		}
		if results := f.find(n, inputs); results != nil && s.acceptable(n, results) {
			s.becomeConstants(n, results)
			return nil
		}
		results, err := s.o.Evaluator.Eval(s.ctx, n, inputs)
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if err != nil || !s.acceptable(n, results) {
			s.failed[n] = true
			return nil
		}
		f.add(n, inputs, results)
		s.becomeConstants(n, results)
		return nil
	})
}

// foldedTwins are nodes on large constants that one pass has folded. Layers that share weights transpose the same ones, each for itself, and would have
// a copy each until the copies are found to be equal.
type foldedTwins map[int][]foldedTwin // by the bytes of the first operand

type foldedTwin struct {
	n               *Node
	inputs, results []tensor.Value
}

// leastTwin is the fewest bytes of a first operand for which a twin is sought.
const leastTwin = 1 << 16

func twinKey(inputs []tensor.Value) int {
	if len(inputs) > 0 {
		if t, ok := inputs[0].(*tensor.Tensor); ok && t.DType != tensor.String {
			return t.NumBytes()
		}
	}
	return 0
}

// find returns the results of a node with the same operator, attributes and operands, nil where there was none.
func (f foldedTwins) find(n *Node, inputs []tensor.Value) []tensor.Value {
	for _, o := range f[twinKey(inputs)] {
		same := func(a, b tensor.Value) bool {
			x, _ := a.(*tensor.Tensor)
			y, _ := b.(*tensor.Tensor)
			return x == y || x != nil && y != nil && equalTensors(x, y)
		}
		if o.n.Op == n.Op && len(o.n.Outputs) == len(n.Outputs) && slices.EqualFunc(o.n.Attrs, n.Attrs, equalAttrs) && slices.EqualFunc(o.inputs, inputs, same) {
			return o.results
		}
	}
	return nil
}

func (f *foldedTwins) add(n *Node, inputs, results []tensor.Value) {
	key := twinKey(inputs)
	if key < leastTwin {
		return
	}
	if *f == nil {
		*f = foldedTwins{}
	}
	if len((*f)[key]) < mostAlike {
		(*f)[key] = append((*f)[key], foldedTwin{n, inputs, results})
	}
}

// kept reports whether n expands a constant, and nobody has said yet that it may be folded. Numbers and vectors are the weights of nothing: where
// quantisers found a model's arithmetic of shapes, which they took for activations, each would wait for those before it to be released.
func (s *simplifier) kept(n *Node) bool {
	return s.o.Keep != nil && n.Is("DequantizeLinear") && !s.released[n] && n.Inputs[0] != nil && n.Inputs[0].Const != nil && n.Output(0) != nil &&
		len(n.Inputs[0].Const.Shape) > 1 && n.Inputs[0].Type.DType.Bits() < n.Outputs[0].Type.DType.Bits()
}

// releaseKept lets nodes that expand constants be folded where nobody wants the constants. It reports whether there were some.
func (s *simplifier) releaseKept() bool {
	some := false
	for n := range s.g.Nodes() {
		if s.kept(n) && (n.Outputs[0].IsOutput() || scaledBehind(n.Outputs[0]) || !s.o.Keep(n)) {
			s.released[n], some = true, true
		}
	}
	return some
}

// scaledBehind reports whether v are the weights of a linear operator behind which something stands that may be folded into them.
func scaledBehind(v *Value) bool {
	for _, u := range v.uses {
		if _, ok := linearOf(u.Node); !ok || !u.Node.Outputs[0].HasOneUse() {
			continue
		}
		next := u.Node.Outputs[0].uses[0].Node
		if next.Is("BatchNormalization") {
			return true
		}
		if next.Is("Mul", "Div") && slices.ContainsFunc(next.Inputs, func(v *Value) bool { return v != nil && v.Const != nil }) {
			return true
		}
	}
	return false
}

// isRandomNode reports whether two runs of a node may differ: its operator is random, or it is a Dropout in training.
func isRandomNode(n *Node) bool {
	if n.Is("Dropout") && n.Input(2) != nil {
		return dropoutSource(n) == nil
	}
	return n.Schema != nil && n.Schema.Random
}

// maxFold is how many bytes the results of n may have: MaxFold, or those of a constant that they take the place of.
func (s *simplifier) maxFold(n *Node) int64 {
	if x := n.Input(0); x == nil || !n.Is("Transpose") || s.o.MaxFold < 0 || !x.Const.IsCompact() {
		return s.o.MaxFold
	}
	return max(s.o.MaxFold, int64(n.Inputs[0].Const.NumBytes()))
}

// worthwhile reports whether the results of n are tensors that fit in maxFold, by their inferred types or, for operators
// that choose elements of their operands, by those.
func (s *simplifier) worthwhile(n *Node) bool {
	total, most := int64(0), s.maxFold(n)
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		if !v.Type.IsTensor() {
			return false
		}
		dims, ok := v.Type.Shape.Static()
		if !ok {
			return s.chosen(n)
		}
		count, err := tensor.NumElements(dims)
		if err != nil {
			return false
		}
		size := v.Type.DType.Bytes(count)
		if v.Type.DType.Bits() == 0 { // strings, or not known
			size = v.Type.DType.Bytes(0) + 16*count
		}
		if size < 0 || int64(size) > most || total+int64(size) > most {
			return false
		}
		total += int64(size)
	}
	return true
}

// chosen reports whether n is an operator whose results, of sizes that depend on data, are bounded by its operands.
func (s *simplifier) chosen(n *Node) bool {
	if !n.Is("NonZero", "Unique", "Compress", "NonMaxSuppression", "StringSplit") {
		return false
	}
	total := int64(0)
	for _, v := range n.Inputs {
		if v != nil {
			total += int64(v.Const.Len()) * 64 // indices of every axis, 8 bytes each
		}
	}
	return total <= s.o.MaxFold
}

// acceptable reports whether results are host tensors of the inferred types, one for every output of n.
func (s *simplifier) acceptable(n *Node, results []tensor.Value) bool {
	if len(results) < len(n.Outputs) {
		return false
	}
	most := s.maxFold(n)
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		t, ok := results[i].(*tensor.Tensor)
		if !ok || t == nil || t.Check() != nil || !t.Device.IsHost() || int64(t.NumBytes()) > most {
			return false
		}
		want := v.Type
		if want.DType != tensor.Invalid && want.DType != t.DType || want.Shape != nil && len(want.Shape) != len(t.Shape) {
			return false
		}
		for k, d := range want.Shape {
			if n, ok := d.Const(); ok && n != int64(t.Shape[k]) {
				return false
			}
		}
	}
	return true
}

func (s *simplifier) becomeConstants(n *Node, results []tensor.Value) {
	for i, v := range n.Outputs {
		if v != nil && (len(v.uses) > 0 || v.output > 0) {
			s.replace(v, s.g.AddConst(v.Name, results[i].(*tensor.Tensor)))
		}
	}
	s.vanish(n, FoldedConstant)
	s.g.Remove(n)
}

// constantOf returns the tensor of a Constant node, nil where it has none or a malformed one.
func constantOf(n *Node) *tensor.Tensor {
	if len(n.Attrs) != 1 || n.Output(0) == nil {
		return nil
	}
	a := &n.Attrs[0]
	var t *tensor.Tensor
	switch {
	case a.Name == "value" && a.Kind == AttrTensor:
		t = a.Tensor
	case a.Name == "value_float" && a.Kind == AttrFloat:
		t = tensor.Scalar(a.Float)
	case a.Name == "value_floats" && a.Kind == AttrFloats:
		t = tensor.From(slices.Clone(a.Floats))
	case a.Name == "value_int" && a.Kind == AttrInt:
		t = tensor.Scalar(a.Int)
	case a.Name == "value_ints" && a.Kind == AttrInts:
		t = tensor.From(slices.Clone(a.Ints))
	case a.Name == "value_string" && a.Kind == AttrString:
		t = &tensor.Tensor{DType: tensor.String, Shape: []int{}, Strings: []string{a.Str}}
	case a.Name == "value_strings" && a.Kind == AttrStrings:
		t = tensor.FromStrings(slices.Clone(a.Strs))
	}
	if t == nil || t.Check() != nil {
		return nil
	}
	return t
}

// chooseArm replaces an If whose condition is a constant, or follows from dims, by the nodes of the arm that it chooses.
func (s *simplifier) chooseArm(n *Node) {
	if !n.Is("If") || len(n.Inputs) != 1 {
		return
	}
	cond, ok := bools(n.Inputs[0], followDepth)
	if !ok || len(cond) != 1 || cond[0] == perhaps {
		return
	}
	arm, other := n.Region("then_branch"), n.Region("else_branch")
	if cond[0] == no {
		arm, other = other, arm
	}
	if arm == nil || other == nil || len(arm.Inputs) > 0 || len(arm.Captures) != len(n.Captures) || len(arm.Outputs) != len(n.Outputs) {
		return
	}
	for _, name := range n.Provenance() {
		s.report.Folded = append(s.report.Folded, Folded{name, Forwarded})
	}
	if s.g.Owner() == nil && s.o.Chosen != nil {
		s.o.Chosen(arm)
	}
	s.vanishAll(other)
	keep := make([]string, len(n.Outputs)) // names of outputs of the graph
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if s.touch(v); v.output > 0 {
			keep[i] = v.Name
		}
	}
	results := slices.Clone(arm.Outputs)
	delete(s.states, arm)
	for _, m := range s.g.inline(n, arm, nil) {
		s.stale(m)
	}
	for i, v := range results {
		if keep[i] != "" && v.graph == s.g && v.kind == kindResult {
			v.Name = keep[i]
		}
	}
	s.changes++
}
