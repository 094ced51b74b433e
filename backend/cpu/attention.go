package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Attention as models spell it in standard operators is one node:
//
//	q·kᵀ → [scale | bias | mask]… → Softmax → [0 for NaN, or where a row's condition says so] → ·v
//
// q, k and v are [batch, heads, rows, size], or [batch, rows, size] where there is one head, or batch and heads are one dim.
// Transpositions that split heads from columns and join them again belong to it, and so do the repetition of heads of keys and values
// that several heads of queries share, and factors of queries and keys. Nothing of the cache is transposed or repeated in memory. Keys and values of half precision, as a cache has them, are made floats head by head.

// attentionName is the name of the property.
const attentionName = "attention"

// headsView is a value as [batch, heads, rows, size]: axes are the value's, noAxis of heads where it is [batch, rows, size], and share heads in a row
// are one of its own.
type headsView struct {
	value *graph.Value
	axes  [4]int
	share int64
}

// noAxis is the place of an axis that a value lacks.
const noAxis = -1

// headsAxes returns the axes of values of rank 3 or 4 as a view has them.
func headsAxes(rank int) [4]int {
	if rank == 3 {
		return [4]int{0, noAxis, 1, 2}
	}
	return [4]int{0, 1, 2, 3}
}

// permuted returns axes of what a Transpose made as those of its operand.
func permuted(axes [4]int, perm []int) [4]int {
	for i, a := range axes {
		if a != noAxis {
			axes[i] = perm[a]
		}
	}
	return axes
}

// dim returns the size of axis i of the view, without sharing.
func (h *headsView) dim(i int) graph.Dim {
	if h.axes[i] == noAxis {
		return graph.D(1)
	}
	return h.value.Type.Shape[h.axes[i]]
}

// A scoreTerm changes scores, between the product and the softmax.
type scoreTerm struct {
	op     string       // Mul, Div, Add or Where
	by     *graph.Value // of Add and Where: what is added, or the condition
	number float32      // of Mul, Div, and of Where what stands where a score does not
	where  bool         // the condition of the numbers' places
}

// attentionForm is attention that was read.
type attentionForm struct {
	all     []*graph.Node
	q, k, v headsView
	scale   float32      // of queries and keys, together
	terms   []scoreTerm  // in order, behind the product
	zeros   bool         // rows of NaN, of which no key may be looked at, become 0
	unseen  *graph.Value // a condition of rows, true where they become 0; nil for none
	scores  headsView
	out     headsView
}

func (f *attentionForm) nodes() []*graph.Node { return f.all }

func fuseAttention() property.SubgraphProperty {
	return property.Found(attentionName, 3, func(seed *graph.Node) []*graph.Node {
		if f := attentionOf(seed); f != nil {
			return f.all
		}
		return nil
	})
}

// attentionOf reads attention around the Softmax of its scores, nil where there is none.
func attentionOf(n *graph.Node) *attentionForm {
	if !n.Is("Softmax") || !operators.IsFloat32(n.Inputs[0]) || !n.Outputs[0].Type.Backed() {
		return nil
	}
	rank := len(n.Inputs[0].Type.Shape)
	if rank != 3 && rank != 4 || axisOf(n, softmaxAxis(n), rank) != rank-1 {
		return nil
	}
	axes := headsAxes(rank)
	f := &attentionForm{all: []*graph.Node{n}, scores: headsView{n.Inputs[0], axes, 1}, scale: 1}
	shares := f.readZeros(n.Outputs[0])
	mix := fuse.Next(shares)
	if mix == nil || !mix.Is("MatMul") || mix.Inputs[0] != shares || mix.Inputs[1] == shares {
		return nil
	}
	product := f.readTerms(n, n.Inputs[0], 0)
	if product == nil || !operators.IsFloat32(product.Inputs...) || !operators.IsFloat32(mix.Inputs[1]) {
		return nil
	}
	f.all, f.scores.value = append(f.all, product, mix), product.Outputs[0]
	var ok [3]bool
	reader, x := f.unscaled(product, product.Inputs[0])
	f.q, ok[0] = f.heads(reader, x, axes, false)
	reader, x = f.unscaled(product, product.Inputs[1])
	f.k, ok[1] = f.heads(reader, x, [4]int{axes[0], axes[1], axes[3], axes[2]}, true)
	f.v, ok[2] = f.heads(mix, mix.Inputs[1], axes, true)
	f.leadScale()
	if product.Inputs[0] == product.Inputs[1] || !ok[0] || !ok[1] || !ok[2] || !f.agree() {
		return nil
	}
	f.out = headsView{mix.Outputs[0], axes, 1}
	if t := fuse.Next(f.out.value); t != nil && t.Is("Transpose") {
		if perm := fuse.Perm(t, rank); perm != nil && perm[rank-1] == rank-1 {
			to := make([]int, rank)
			for i, from := range perm {
				to[from] = i
			}
			f.all, f.out = append(f.all, t), headsView{t.Outputs[0], permuted(axes, to), 1}
		}
	}
	return f
}

// readZeros reads the choice of 0 for rows of the results p of a softmax, where they are NaN or where a condition of each row is true, and returns what it makes, or p
// where there is none. All of a row are NaN, or none is.
func (f *attentionForm) readZeros(p *graph.Value) *graph.Value {
	if choice := fuse.Next(p); choice != nil && zeroes(choice, p) && ofRows(choice.Inputs[0], p) {
		f.all, f.unseen = append(f.all, choice), choice.Inputs[0]
		return choice.Outputs[0]
	}
	if p.IsOutput() || len(p.Uses()) != 2 {
		return p
	}
	test, choice := p.Uses()[0].Node, p.Uses()[1].Node
	if choice.Is("IsNaN") {
		test, choice = choice, test
	}
	if !test.Is("IsNaN") || !zeroes(choice, p) || fuse.Next(test.Outputs[0]) != choice || choice.Inputs[0] != test.Outputs[0] {
		return p
	}
	f.all, f.zeros = append(f.all, test, choice), true
	return choice.Outputs[0]
}

// zeroes reports whether a node makes elements of p 0 where a condition says so, and leaves others.
func zeroes(n *graph.Node, p *graph.Value) bool {
	if !n.Is("Where") || n.Inputs[2] != p || !n.Outputs[0].Type.Shape.Equal(p.Type.Shape) {
		return false
	}
	zero, ok := fuse.Scalar(n.Inputs[1])
	return ok && zero == 0
}

// ofRows reports whether a condition is the same for all elements of a row of p.
func ofRows(condition, p *graph.Value) bool {
	s := condition.Type.Shape
	return len(s) <= len(p.Type.Shape) && (len(s) == 0 || s[len(s)-1].Is(1))
}

// unscaled reads a factor of v, an operand of reader. It returns what is multiplied, and who reads that.
func (f *attentionForm) unscaled(reader *graph.Node, v *graph.Value) (*graph.Node, *graph.Value) {
	n := v.Producer
	if n == nil || fuse.Next(v) != reader || !n.Is("Mul", "Div") {
		return reader, v
	}
	for i, x := range n.Inputs {
		s, ok := fuse.Scalar(n.Inputs[1-i])
		if !ok || i == 1 && n.Is("Div") || !x.Type.Shape.Equal(v.Type.Shape) || fuse.IsConst(x) {
			continue
		}
		if f.multiply(s, n.Is("Div")) {
			f.all = append(f.all, n)
			return n, x
		}
	}
	return reader, v
}

// leadScale takes the factors that come first behind the product as factors of keys, of which there are fewer than scores.
func (f *attentionForm) leadScale() {
	for len(f.terms) > 0 {
		if t := &f.terms[0]; t.op != "Mul" && t.op != "Div" || !f.multiply(t.number, t.op == "Div") {
			return
		}
		f.terms = f.terms[1:]
	}
}

// multiply multiplies the factor of queries and keys, or divides it, and reports whether it stays one that loses no bits of theirs.
func (f *attentionForm) multiply(by float32, divide bool) bool {
	s := f.scale * by
	if divide {
		s = f.scale / by
	}
	if size := math.Abs(float64(s)); !(size > 1e-10 && size < 1e10) {
		return false
	}
	f.scale = s
	return true
}

// softmaxAxis is the default axis of a Softmax.
func softmaxAxis(n *graph.Node) int64 {
	if n.Op.Since < 13 {
		return 1
	}
	return -1
}

// agree reports whether batches, heads, lengths and sizes are those of one attention.
func (f *attentionForm) agree() bool {
	s := &f.scores
	heads, ok1 := s.dim(1).Const()
	own, ok2 := f.k.dim(1).Const()
	_, ok3 := f.q.dim(3).Const()
	_, ok4 := f.v.dim(3).Const()
	return ok1 && ok2 && ok3 && ok4 && f.q.share == 1 && f.k.share == f.v.share && own*f.k.share == heads &&
		f.q.dim(1).Equal(s.dim(1)) && f.v.dim(1).Equal(f.k.dim(1)) && f.q.dim(3).Equal(f.k.dim(3)) &&
		f.q.dim(0).Equal(s.dim(0)) && f.k.dim(0).Equal(s.dim(0)) && f.v.dim(0).Equal(s.dim(0)) &&
		f.q.dim(2).Equal(s.dim(2)) && f.k.dim(2).Equal(s.dim(3)) && f.v.dim(2).Equal(s.dim(3))
}

// maxTerms bounds the operators between the product and the softmax.
const maxTerms = 8

// mayBe reports whether two shapes may be the same in a run. Of what scores become by a mask of another length nothing is known but that
// a product with values follows, which takes no other: a plan finds that out.
func mayBe(a, b graph.Shape) bool {
	return slices.EqualFunc(a, b, func(x, y graph.Dim) bool {
		_, constX := x.Const()
		_, constY := y.Const()
		return x.Equal(y) || !constX || !constY
	})
}

// readTerms reads what stands between v, which reader reads, and the product of queries and keys, which it returns.
func (f *attentionForm) readTerms(reader *graph.Node, v *graph.Value, depth int) *graph.Node {
	n := v.Producer
	if n == nil || depth > maxTerms || fuse.Next(v) != reader || !mayBe(v.Type.Shape, f.scores.value.Type.Shape) {
		return nil
	}
	if n.Is("MatMul") {
		return n
	}
	var in []*graph.Value
	var terms []scoreTerm
	switch {
	case n.Is("Add"):
		in, terms = []*graph.Value{n.Inputs[0], n.Inputs[1]}, []scoreTerm{{op: "Add", by: n.Inputs[1]}, {op: "Add", by: n.Inputs[0]}}
	case n.Is("Mul", "Div"):
		for i, x := range n.Inputs {
			if s, ok := fuse.Scalar(n.Inputs[1-i]); ok && (i == 0 || n.Is("Mul")) {
				in, terms = append(in, x), append(terms, scoreTerm{op: n.Op.Name, number: s})
			}
		}
	case n.Is("Where"):
		for i := 1; i <= 2; i++ {
			if s, ok := fuse.Scalar(n.Inputs[3-i]); ok && n.Inputs[0] != n.Inputs[i] {
				in, terms = append(in, n.Inputs[i]), append(terms, scoreTerm{op: "Where", by: n.Inputs[0], number: s, where: i == 2})
			}
		}
	}
	for i, x := range in {
		t := terms[i]
		if t.by != nil && (len(t.by.Type.Shape) > len(v.Type.Shape) || t.op == "Add" && !operators.IsFloat32(t.by) || t.by == x) {
			continue
		}
		if product := f.readTerms(n, x, depth+1); product != nil {
			f.all, f.terms = append(f.all, n), append(f.terms, t)
			return product
		}
	}
	return nil
}

// heads reads v, an operand of reader whose axes are given as [batch, heads, rows, size], back through transpositions, the
// repetition of heads and, where narrow is set, a cast from half precision. It reports whether elements of a row are neighbours in what it finds.
func (f *attentionForm) heads(reader *graph.Node, v *graph.Value, axes [4]int, narrow bool) (h headsView, ok bool) {
	rank := len(f.scores.value.Type.Shape)
	if len(v.Type.Shape) != rank || !v.Type.Backed() {
		return h, false
	}
	at := headsView{v, axes, 1}
	var passed []*graph.Node
	kept := 0
	if ok = axes[3] == rank-1; ok {
		h = at
	}
	for fuse.Next(at.value) == reader && at.value.Producer != nil {
		n := at.value.Producer
		if n.Is("Transpose") {
			perm := fuse.Perm(n, rank)
			if perm == nil {
				break
			}
			at.axes = permuted(at.axes, perm)
			at.value, reader = n.Inputs[0], n
			passed = append(passed, n)
		} else if narrow && n.Is("Cast") && isHalf(n.Inputs[0].Type.DType) {
			at.value, reader = n.Inputs[0], n
			passed = append(passed, n)
		} else if base, list := repeatedHeads(at.value); base != nil && at.share == 1 && at.axes[0] == 0 && at.axes[1] == 1 {
			at.share, _ = list[1].Outputs[0].Type.Shape[2].Const()
			at.value, reader = base, list[len(list)-1]
			passed = append(passed, list...)
		} else {
			break
		}
		if !at.value.Type.Backed() || len(at.value.Type.Shape) != rank {
			break
		}
		if at.axes[3] == rank-1 {
			h, ok, kept = at, true, len(passed)
		}
	}
	f.all = append(f.all, passed[:kept]...)
	return h, ok
}

// repeatedHeads returns what v [batch, heads·share, rows, size] repeats the heads of, [batch, heads, rows, size], and the nodes
// that do: a view with a dim of 1 behind the heads, an Expand of that dim, and a view that joins it with the heads.
func repeatedHeads(v *graph.Value) (base *graph.Value, nodes []*graph.Node) {
	join := v.Producer
	if join == nil || !join.Is("Reshape", "Flatten") {
		return nil, nil
	}
	wide := join.Inputs[0]
	expand := wide.Producer
	if expand == nil || !expand.Is("Expand") || fuse.Next(wide) != join {
		return nil, nil
	}
	thin := expand.Inputs[0]
	open := thin.Producer
	if open == nil || !open.Is("Unsqueeze", "Reshape") || fuse.Next(thin) != expand {
		return nil, nil
	}
	base = open.Inputs[0]
	b, t, w, s := base.Type.Shape, thin.Type.Shape, wide.Type.Shape, v.Type.Shape
	if len(b) != 4 || len(t) != 5 || len(w) != 5 || len(s) != 4 || !t[2].Is(1) {
		return nil, nil
	}
	share, ok := w[2].Const()
	rest := slices.Concat(w[:2], w[3:])
	if !ok || share < 1 || !slices.EqualFunc(slices.Concat(t[:2], t[3:]), b, graph.Dim.Equal) || !slices.EqualFunc(rest, b, graph.Dim.Equal) ||
		!s[0].Equal(b[0]) || !s[1].Equal(b[1].Scale(share)) || !s[2].Equal(b[2]) || !s[3].Equal(b[3]) {
		return nil, nil
	}
	return base, []*graph.Node{join, expand, open}
}

// fusedAttention reads the body of a fused node.
func fusedAttention(n *graph.Node) (*attentionForm, *property.Reason) {
	return formOf(n, "attention", attentionOf)
}

func attentionSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if _, why := fusedAttention(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func init() {
	table.Register(operators.Pattern(attentionName), operator{Signatures: attentionSignatures, Plan: planAttention})
}
