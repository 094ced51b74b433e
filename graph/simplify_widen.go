package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// widen lets nodes on float16 and bfloat16 compute in float32 where SimplifyOptions.Rank says that they are run better so.
// Constants are converted once; other operands get one Cast for all readers, results one Cast back for whoever still reads
// the narrow type: outputs, regions, nodes that stay, the model's casts to other types. Between nodes that are widened
// nothing is rounded, and the model's Cast of such a result to float32 is that result. The model's Cast from float32 rounds.
//
// Operators that only move elements follow what they read where they are run as well either way, so that a Reshape between
// two products does not round, and one of an input is not doubled in size. A Concat that makes an output of what is not widened does not.
//
// In a graph whose Meta says HalfRounded under HalfKey every result of half precision is rounded: each reader gets it through
// the narrow type, and nothing follows.
func (s *simplifier) widen() error {
	if s.o.Rank == nil {
		return nil
	}
	w := widener{s: s}
	if err := s.each(w.node); err != nil {
		return err
	}
	for n := range s.g.Nodes() {
		if s.narrows(n) && isDead(n) {
			s.g.Remove(n)
		}
	}
	return nil
}

// HalfKey is the key of Graph.Meta under which HalfRounded says that the results of every operator on float16 or bfloat16 are
// rounded to that type where backends compute in float32, as the program rounded that the model comes from. By default they
// compute on without rounding, which is faster, and nearer to the result in real numbers.
const (
	HalfKey     = "half_precision"
	HalfRounded = "rounded"
)

// widening is what all passes of one Simplify know of widened values.
type widening struct {
	rounds  bool                              // readers get no result but through the narrow type
	casts   map[*Node]bool                    // those that take results of widened nodes back
	tensors map[*tensor.Tensor]*tensor.Tensor // float32 contents of constants
	consts  map[*Value]*Value
}

// narrows reports whether n is a Cast that widen made for a result. One that has taken in a Cast of the model's rounds as
// that did.
func (s *simplifier) narrows(n *Node) bool { return s.wide.casts[n] && len(n.Provenance()) == 0 }

// wideOf returns the float32 value that v is rounded from, nil where there is none, or nobody may read it.
func (s *simplifier) wideOf(v *Value) *Value {
	if !s.wide.rounds && v.Producer != nil && s.narrows(v.Producer) {
		return v.Producer.Inputs[0]
	}
	return nil
}

// isHalf reports whether v is a tensor of half precision.
func isHalf(v *Value) bool {
	return v != nil && v.Type.IsTensor() && (v.Type.DType == tensor.Float16 || v.Type.DType == tensor.BFloat16)
}

// isWidening reports whether n is a Cast to float32 with a result in that format.
func isWidening(n *Node, f Format) bool {
	y := n.Output(0)
	return n.Is("Cast") && y != nil && y.Type.IsTensor() && y.Type.DType == tensor.Float32 && y.Format == f
}

// TryWide reports what try says while the operands and results of n of half precision have the type float32, contents of constants apart;
// false where there are none.
func TryWide(n *Node, try func() bool) bool {
	var narrow []*Value
	was := map[*Value]tensor.DType{}
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		if isHalf(v) {
			narrow, was[v] = append(narrow, v), v.Type.DType
			v.Type.DType = tensor.Float32
		}
	}
	defer func() {
		for _, v := range narrow {
			v.Type.DType = was[v]
		}
	}()
	return len(narrow) > 0 && try()
}

// widener widens nodes of one graph.
type widener struct {
	s    *simplifier
	made []*Value // for the node that is tried
}

// node widens n where that is better.
func (w *widener) node(n *Node) error {
	if x := n.Input(0); isHalf(x) && isWidening(n, x.Format) {
		if src := w.s.wideOf(x); src != nil && onlyFirst(n) {
			w.s.forward(n, src)
		}
		return nil
	}
	moves, ok := widens(n)
	if !ok {
		return nil
	}
	if slices.ContainsFunc(n.Schema.Inputs, func(p Param) bool { return p.Type == cacheType }) {
		if done := w.try(n, moves, cacheType); done {
			return nil
		}
	}
	w.try(n, moves, "")
	return nil
}

// cacheType is what ONNX Runtime's schemas call the type of caches, which backends may read and write as they are.
const cacheType = "T_CACHE"

// try widens n, but for operands and results of the type variable apart, and reports whether that is better.
func (w *widener) try(n *Node, moves bool, apart string) bool {
	follows := moves && slices.ContainsFunc(n.Inputs, func(v *Value) bool { return isHalf(v) && w.s.wideOf(v) != nil }) && !w.continues(n)
	before := w.s.o.Rank(n)
	if before == 0 && !follows {
		return false
	}
	inputs, types, contents := slices.Clone(n.Inputs), make([]Type, len(n.Outputs)), make([][]Dim, len(n.Outputs))
	for i, v := range n.Outputs {
		if v != nil {
			types[i], contents[i] = v.Type, v.Dims
		}
	}
	if w.operands(n, apart) && widened(n, types, apart) {
		if after := w.s.o.Rank(n); after < before || follows && after == before {
			w.made = w.made[:0]
			w.results(n, types, contents)
			return true
		}
	}
	for k, v := range inputs {
		n.SetOperand(k, v)
	}
	for i, v := range n.Outputs {
		if v != nil {
			v.Type, v.Dims = types[i], contents[i]
		}
	}
	w.discard()
	return false
}

// continues reports whether n joins what is not widened with something else in an output, as a cache is continued, which is longer than what
// is new: what is narrow is not widened to be rounded again.
func (w *widener) continues(n *Node) bool {
	return n.Is("Concat") && n.Outputs[0].IsOutput() &&
		slices.ContainsFunc(n.Inputs, func(v *Value) bool { return isHalf(v) && v.Const == nil && w.s.wideOf(v) == nil })
}

// fixedTypes are operators for which the type of an operand is more than that of what they compute.
var fixedTypes = []string{"Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"}

// widens reports whether a node of half precision may as well compute in float32: by its schema, every port of half
// precision may be of float32. moves tells that it does no arithmetic: the operator is there for strings too, or asks what a number is.
func widens(n *Node) (moves, ok bool) {
	if n.Schema == nil || n.Op.Domain == CarveDomain || len(n.Regions) > 0 || len(n.Captures) > 0 || isRandomNode(n) || n.Is(fixedTypes...) {
		return false, false
	}
	narrow := false
	moves = n.Is("IsNaN", "IsInf")
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if !v.Type.IsTensor() {
			return false, false
		}
		if !isHalf(v) {
			continue
		}
		p := formal(n.Schema.Inputs, i)
		if p == nil || !slices.Contains(n.Schema.Types[p.Type], onnxDTypes[tensor.Float32]) {
			return false, false
		}
		moves = moves || slices.Contains(n.Schema.Types[p.Type], onnxDTypes[tensor.String])
		narrow = true
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if !v.Type.IsTensor() {
			return false, false
		}
		if p := formal(n.Schema.Outputs, i); isHalf(v) && (p == nil || !slices.Contains(n.Schema.Types[p.Type], onnxDTypes[tensor.Float32])) {
			return false, false
		}
	}
	return moves, narrow
}

// operands gives n float32 operands, but for those of the type variable apart. It reports whether it could.
func (w *widener) operands(n *Node, apart string) bool {
	for k, v := range n.Inputs {
		if !isHalf(v) || formal(n.Schema.Inputs, k).Type == apart {
			continue
		}
		x := w.operand(v)
		if x == nil {
			return false
		}
		n.SetOperand(k, x)
	}
	return true
}

// operand returns the float32 value for one of half precision, nil for a constant without proper data.
func (w *widener) operand(v *Value) *Value {
	if v.Const != nil {
		return w.constant(v)
	}
	if x := w.s.wideOf(v); x != nil {
		return x
	}
	var cast *Node
	for _, u := range v.uses {
		if isWidening(u.Node, v.Format) && (cast == nil || u.Node.ID < cast.ID) {
			cast = u.Node
		}
	}
	if cast == nil {
		cast = w.cast(v, TensorType(tensor.Float32, v.Type.Shape), v.Format)
		w.made = append(w.made, cast.Outputs[0])
	}
	return cast.Outputs[0]
}

func (w *widener) constant(v *Value) *Value {
	wide := &w.s.wide
	if x := wide.consts[v]; x != nil && x.kind == kindConst {
		return x
	}
	if v.Format != HostFormat {
		return nil
	}
	t := wide.tensors[v.Const]
	if t == nil {
		var err error
		if t, err = tensor.Convert(v.Const, tensor.Float32, nil); err != nil {
			return nil
		}
		wide.tensors[v.Const] = t
	}
	x := w.s.g.AddConst(v.Name, t)
	wide.consts[v] = x
	w.made = append(w.made, x)
	return x
}

// cast adds a Cast without a name: reports speak of the model's nodes. v is nil for one that gets its operand later.
func (w *widener) cast(v *Value, t Type, f Format) *Node {
	op := Op{Name: "Cast"}
	op.Since = max(versionFor(w.s.g, op), 13) // the first that knows bfloat16
	n := w.s.g.AddNode(NodeSpec{Op: op, Attrs: []Attr{IntAttr("to", int64(t.DType))}, Inputs: []*Value{v}, Outputs: []string{""}})
	n.Outputs[0].Type, n.Outputs[0].Format = t, f
	return n
}

// widened infers the types of a node's results anew and reports whether those of half precision are float32 now, and the
// element types of others, and of those of the type variable apart, as they were.
func widened(n *Node, types []Type, apart string) bool {
	if InferNode(n) != nil {
		return false
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		want := types[i].DType
		if (want == tensor.Float16 || want == tensor.BFloat16) && formal(n.Schema.Outputs, i).Type != apart {
			want = tensor.Float32
		}
		if !v.Type.IsTensor() || v.Type.DType != want {
			return false
		}
	}
	return true
}

// results gives the readers of n's results of half precision casts of what n computes now.
func (w *widener) results(n *Node, types []Type, contents [][]Dim) {
	s := w.s
	s.changes++
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if types[i].DType == v.Type.DType {
			if !types[i].Equal(v.Type) || !sameContent(contents[i], v.Dims) {
				s.touch(v)
			}
			continue
		}
		if len(v.uses) == 0 && v.output == 0 {
			continue
		}
		c := w.cast(nil, TensorType(types[i].DType, v.Type.Shape), v.Format)
		s.replace(v, c.Outputs[0])
		c.SetOperand(0, v)
		s.wide.casts[c] = true
	}
}

// discard removes what was made for a node that stays as it is.
func (w *widener) discard() {
	for _, v := range w.made {
		switch {
		case len(v.uses) > 0:
		case v.Producer != nil:
			w.s.g.Remove(v.Producer)
		default:
			w.s.g.RemoveConst(v)
		}
	}
	w.made = w.made[:0]
}
