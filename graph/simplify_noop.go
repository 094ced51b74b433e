package graph

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// removeNoOps removes nodes whose result is one of their operands: in inference mode, and exactly, NaNs and signs of zeros
// included.
func (s *simplifier) removeNoOps() error {
	return s.each(func(n *Node) error {
		if n.Op.Domain != "" {
			return nil
		}
		if n.Is("Expand") {
			s.skipExpand(n)
		}
		rule := noOps[n.Op.Name]
		if rule == nil || !onlyFirst(n) {
			return nil
		}
		for _, v := range n.Inputs[min(len(n.Inputs), 1):] { // an operand that only a run knows may be one that it has to refuse
			if v != nil && !v.Type.Backed() && !n.Is("CastLike") {
				return nil
			}
		}
		src, out := rule(n), n.Output(0)
		if src == nil || src.Format != out.Format || src.Type.Kind != out.Type.Kind && src.Type.Kind != KindUnknown && out.Type.Kind != KindUnknown {
			return nil
		}
		s.forward(n, src)
		return nil
	})
}

// noOps gives for operators the operand that is the result of a node, nil where none is.
var noOps = map[string]func(*Node) *Value{
	"Identity":   func(n *Node) *Value { return n.Input(0) },
	"Dropout":    dropoutSource,
	"Cast":       castSource,
	"Relu":       reluSource,
	"CastLike":   castLikeSource,
	"Transpose":  transposeSource,
	"Reshape":    sameShape,
	"Flatten":    sameShape,
	"Squeeze":    sameShape,
	"Unsqueeze":  sameShape,
	"Expand":     sameShape,
	"Slice":      sliceSource,
	"Pad":        padSource,
	"Tile":       tileSource,
	"ScatterND":  scatterSource,
	"Concat":     onlyInput,
	"Sum":        onlyInput,
	"Max":        onlyInput,
	"Min":        onlyInput,
	"Mean":       onlyInput,
	"Add":        func(n *Node) *Value { return neutral(n, negativeZero, true) },
	"Sub":        func(n *Node) *Value { return neutral(n, positiveZero, false) },
	"Mul":        func(n *Node) *Value { return neutral(n, one, true) },
	"Div":        func(n *Node) *Value { return neutral(n, one, false) },
	"Pow":        func(n *Node) *Value { return neutral(n, one, false) },
	"BitShift":   func(n *Node) *Value { return neutral(n, positiveZero, false) },
	"BitwiseOr":  func(n *Node) *Value { return neutral(n, positiveZero, true) },
	"BitwiseXor": func(n *Node) *Value { return neutral(n, positiveZero, true) },
}

// skipExpand lets operators that broadcast their operands read what an Expand repeats, where another operand has the shape of the result: exporters write
// x / expand_as(norm(x), x).
func (s *simplifier) skipExpand(n *Node) {
	x, y := n.Input(0), n.Output(0)
	if x == nil || y == nil || x.Format != y.Format || !x.Type.Backed() || !y.Type.Backed() {
		return
	}
	for _, u := range slices.Clone(y.uses) {
		m := u.Node
		if m.graph != s.g || m.Op.Domain != "" || !broadcasting[m.Op.Name] || m.Op.Since < byShapes || m.Is("PRelu") || m.Output(0) == nil {
			continue
		}
		out := m.Outputs[0].Type
		whole := func(v *Value) bool { return v != nil && v != y && v.Type.Backed() && v.Type.Shape.Equal(out.Shape) }
		if slices.ContainsFunc(m.Inputs, whole) {
			m.SetOperand(u.Slot, x)
			s.changes++
		}
	}
}

// sameShape returns input 0 where the result has its shape and element type.
func sameShape(n *Node) *Value {
	x, y := n.Input(0), n.Output(0)
	if x == nil || !x.Type.IsTensor() || x.Type.Shape == nil || x.Type.DType == tensor.Invalid || !x.Type.Equal(y.Type) {
		return nil
	}
	return x
}

func sameDType(n *Node, to tensor.DType) *Value {
	if x := n.Input(0); x != nil && x.Type.IsTensor() && to != tensor.Invalid && x.Type.DType == to {
		return x
	}
	return nil
}

// castSource: a cast to the type that the operand has, or that what it was cast from has, if all its numbers have the type
// between.
func castSource(n *Node) *Value {
	to := tensor.DType(n.Int("to", 0))
	if src := sameDType(n, to); src != nil {
		return src
	}
	x := n.Input(0)
	if x == nil || x.Producer == nil || !x.Producer.Is("Cast") {
		return nil
	}
	if src := x.Producer.Input(0); src != nil && src.Type.IsTensor() && src.Type.DType == to && holds(x.Type.DType, to) {
		return src
	}
	return nil
}

// holds reports whether every number of type small is one of type wide, and a cast there and back gives the same.
func holds(wide, small tensor.DType) bool {
	digits := map[tensor.DType]int{tensor.Float64: 53, tensor.Float32: 24, tensor.Float16: 11, tensor.BFloat16: 8}
	switch {
	case small.IsFloat():
		return digits[small] > 0 && (wide == tensor.Float64 || wide == tensor.Float32 && small != tensor.Float64)
	case !small.IsInt() || small.Bits() < 8:
		return false
	case wide.IsFloat():
		return digits[wide] >= small.Bits() && wide != tensor.BFloat16
	case !wide.IsInt():
		return false
	}
	return wide.Bits() > small.Bits() && (small.IsUnsigned() || !wide.IsUnsigned())
}

// reluSource: numbers that were dequantised about the least integer are not negative.
func reluSource(n *Node) *Value {
	x := n.Input(0)
	if x == nil || x.Producer == nil || !x.Producer.Is("DequantizeLinear") {
		return nil
	}
	q, ok := quantizationOf(x.Producer)
	if !ok {
		return nil
	}
	for i := range q.scale.Len() {
		if q.zeroAt(i) != least(q.dtype) {
			return nil
		}
	}
	return x
}

// scatterSource: updates of all that there is, in order, as exporters write y[:, a:b] = x where a and b are the ends.
func scatterSource(n *Node) *Value {
	x, index, updates := n.Input(0), n.Input(1), n.Input(2)
	if x == nil || index == nil || updates == nil || index.Const == nil || n.Str("reduction", "none") != "none" || !updates.Type.Equal(n.Output(0).Type) {
		return nil
	}
	dims, ok := x.Type.Shape.Static()
	start, step, box := IndexBox(index.Const)
	if k := len(start); !ok || !box || k > len(dims) || !slices.Equal(index.Const.Shape[:k], dims[:k]) {
		return nil
	}
	for a := range start {
		if start[a] != 0 || step[a] != 1 {
			return nil
		}
	}
	return updates
}

func castLikeSource(n *Node) *Value {
	if like := n.Input(1); like != nil && like.Type.IsTensor() {
		return sameDType(n, like.Type.DType)
	}
	return nil
}

func onlyInput(n *Node) *Value {
	if len(n.Inputs) == 1 {
		return n.Inputs[0]
	}
	return nil
}

// dropoutSource: until version 12 Dropout had no training input, and does nothing in inference. With a ratio of 0 it does
// nothing in training either; exporters write that for a drop-out whose caller left the mode to its default.
func dropoutSource(n *Node) *Value {
	if n.Op.Since < 7 && n.Int("is_test", 0) == 0 {
		return nil
	}
	if mode := n.Input(2); mode != nil {
		off := mode.Const != nil && mode.Const.Len() == 1 && mode.Const.Int64At(0) == 0
		ratio := n.Input(1)
		never := ratio != nil && ratio.Const != nil && ratio.Const.Len() == 1 && ratio.Const.Float64At(0) == 0
		if !off && !never {
			return nil
		}
	}
	return n.Input(0)
}

func transposeSource(n *Node) *Value {
	x := n.Input(0)
	if x == nil || !x.Type.IsTensor() {
		return nil
	}
	perm, ok := n.Ints("perm")
	if !ok {
		if x.Type.Shape != nil && len(x.Type.Shape) <= 1 {
			return x
		}
		return nil
	}
	for i, p := range perm {
		if p != int64(i) {
			return nil
		}
	}
	return x
}

// sliceSource: a slice of the operand's shape whose steps go forward takes everything.
func sliceSource(n *Node) *Value {
	if steps := n.Input(4); steps != nil {
		if steps.Const == nil || !allInts(steps.Const, func(k int64) bool { return k > 0 }) {
			return nil
		}
	}
	return sameShape(n)
}

func padSource(n *Node) *Value {
	pads, ok := n.Ints("pads")
	if p := n.Input(1); p != nil {
		if p.Const == nil || !allInts(p.Const, func(k int64) bool { return k == 0 }) {
			return nil
		}
		return n.Input(0)
	}
	for _, p := range pads {
		if p != 0 {
			return nil
		}
	}
	if !ok {
		return nil
	}
	return n.Input(0)
}

func tileSource(n *Node) *Value {
	if len(n.Inputs) != 2 || n.Inputs[1] == nil || n.Inputs[1].Const == nil || !allInts(n.Inputs[1].Const, func(k int64) bool { return k == 1 }) {
		return nil
	}
	return n.Inputs[0]
}

// allInts reports whether ok holds for every element of an integer tensor.
func allInts(t *tensor.Tensor, ok func(int64) bool) bool {
	if !t.DType.IsInt() || t.Len() > 1024 {
		return false
	}
	for i := range t.Len() {
		if !ok(t.Int64At(i)) {
			return false
		}
	}
	return true
}

// neutral returns the operand of a binary operator that the other one, a constant whose elements all are neutral, leaves
// as it is: result and operand have the same shape and type. The second operand is asked, with both the first too.
func neutral(n *Node, is func(*tensor.Tensor, int) bool, both bool) *Value {
	if len(n.Inputs) != 2 || n.Inputs[0] == nil || n.Inputs[1] == nil {
		return nil
	}
	for k := 1; k >= 0; k-- {
		c, x := n.Inputs[k], n.Inputs[1-k]
		if c.Const != nil && c.Const.Len() <= 1024 && x.Type.IsTensor() && x.Type.Shape != nil &&
			x.Type.Equal(n.Outputs[0].Type) && (c.Type.DType == x.Type.DType || n.Is("Pow")) && allElements(c.Const, is) {
			return x
		}
		if !both {
			return nil
		}
	}
	return nil
}

func allElements(t *tensor.Tensor, is func(*tensor.Tensor, int) bool) bool {
	for i := range t.Len() {
		if !is(t, i) {
			return false
		}
	}
	return true
}

func one(t *tensor.Tensor, i int) bool {
	return t.DType != tensor.String && !t.DType.IsComplex() && t.Float64At(i) == 1
}

// positiveZero: x - 0 is x for every x, -0 included.
func positiveZero(t *tensor.Tensor, i int) bool {
	if t.DType.IsFloat() {
		return t.Float64At(i) == 0 && !math.Signbit(t.Float64At(i))
	}
	return t.DType.IsInt() && t.Int64At(i) == 0
}

// negativeZero: x + 0 is not x for the float -0, but x + -0 is.
func negativeZero(t *tensor.Tensor, i int) bool {
	if t.DType.IsFloat() {
		return t.Float64At(i) == 0 && math.Signbit(t.Float64At(i))
	}
	return t.DType.IsInt() && t.Int64At(i) == 0
}
