package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// mostEinsum is the most operands of an Einsum that is taken two by two: which two come next is found in a time that grows with the fourth power.
const mostEinsum = 24

// lowerEinsums replaces an Einsum, of a type that has products of matrices, by the operators that it stands for, which backends know and
// the other passes see through: sums over letters of one operand alone, transpositions, reshapes, and for two operands one
// MatMul, or one Mul where no letter is summed over; of an operand that has a letter twice the diagonal is cut out first. More operands, up to mostEinsum, are taken
// two by two. Dims that broadcast, that are not known to be equal or that a run alone tells are left to the operators where no two dims are to be merged (plain).
// What is left are equations with more, with a letter twice whose dim is symbolic, and others with such dims.
func (s *simplifier) lowerEinsums() error {
	return s.each(func(n *Node) error {
		if !n.Is("Einsum") || !onlyFirst(n) || len(n.Inputs) > mostEinsum {
			return nil
		}
		for {
			l := &einsumLowering{s: s, n: n, reshape: Op{Name: "Reshape"}}
			if !l.read() {
				return nil
			}
			if len(n.Inputs) <= 2 {
				s.changes++
				return l.write()
			}
			if paired, err := l.pair(); !paired || err != nil {
				return err
			}
		}
	})
}

// lowersEinsum reports whether lowerEinsums takes the place of n by operators that compute no more than it does. Of constants these are folded
// then, by whoever multiplies best.
func (s *simplifier) lowersEinsum(n *Node) bool {
	if !n.Is("Einsum") || len(n.Inputs) > 2 || !onlyFirst(n) || slices.Contains(s.o.Skip, "lower-einsum") {
		return false
	}
	l := &einsumLowering{s: s, n: n, reshape: Op{Name: "Reshape"}}
	return l.read()
}

// einsumTerm is an operand with a letter for each of its dims.
type einsumTerm struct {
	v       *Value
	letters string
}

// einsumLowering is the work on one node.
type einsumLowering struct {
	s       *simplifier
	n       *Node
	terms   []einsumTerm
	out     string
	dims    map[byte]Dim
	loose   string // letters whose dims in two operands are not known to be equal
	views   bool   // shapes cannot be written down: dims of 1 come by Unsqueeze, and go by Squeeze
	reshape Op
	err     error
}

// read finds the letters of all operands, those behind an ellipsis included, and reports whether they can be lowered.
func (l *einsumLowering) read() bool {
	eq, err := ParseEinsum(l.n.Str("equation", ""))
	if err != nil || len(eq.Inputs) != len(l.n.Inputs) {
		return false
	}
	l.dims = map[byte]Dim{}
	const hidden = "0123456789"
	most := 0 // dims of an ellipsis
	for i, v := range l.n.Inputs {
		if v == nil || !v.Type.IsTensor() || v.Type.Shape == nil {
			return false
		}
		t := eq.Inputs[i]
		free := len(v.Type.Shape) - len(t.Before) - len(t.After)
		if free < 0 || free > len(hidden) || free > 0 && !t.Ellipsis {
			return false
		}
		most = max(most, free)
		letters := t.Before + hidden[len(hidden)-free:] + t.After
		for k := range letters {
			d, seen := l.dims[letters[k]]
			if seen && !d.Equal(v.Type.Shape[k]) {
				if strings.IndexByte(letters[:k], letters[k]) >= 0 {
					return false
				}
				l.loose += letters[k : k+1]
			}
			l.dims[letters[k]] = v.Type.Shape[k]
			if strings.Count(letters, letters[k:k+1]) > 1 && !l.diagonal(v.Type, letters[k]) {
				return false
			}
		}
		l.terms = append(l.terms, einsumTerm{v, letters})
	}
	if most > 0 && !eq.Output.Ellipsis {
		return false
	}
	l.out = eq.Output.Before + hidden[len(hidden)-most:] + eq.Output.After
	return l.writable()
}

// plain reports whether no shape need be written down: no two dims become one, and dims that may differ are of letters that stay, which Mul broadcasts, and
// MatMul those of batches.
func (l *einsumLowering) plain() bool {
	for _, t := range l.terms {
		for k := range t.letters {
			if strings.Count(t.letters, t.letters[k:k+1]) > 1 {
				return false
			}
		}
	}
	if len(l.terms) != 2 {
		return len(l.terms) == 1
	}
	x, y := l.terms[0], l.terms[1]
	x.letters, y.letters = within(x.letters, l.out+y.letters), within(y.letters, l.out+x.letters)
	if strings.Trim(x.letters+y.letters, l.out) == "" {
		return true
	}
	p := l.product(x, y)
	return len(p.k) == 1 && len(p.n) <= 1 && (len(p.m) <= 1 || p.batch == "") && without(l.loose, p.batch) == ""
}

// diagonal reports whether the diagonal over a letter that an operand of type t has twice can be cut out: the dim's square must be a constant.
func (l *einsumLowering) diagonal(t Type, letter byte) bool {
	d, ok := l.dims[letter].Const()
	axes := TensorType(tensor.Int64, Shape{D(1)})
	x := Type{Kind: KindTensor, DType: t.DType}
	return ok && d < math.MaxInt32 && l.s.has(Op{Name: "Slice"}, x, x, axes, axes, axes, axes)
}

// diagonals leaves each letter of an operand once. Two dims of a letter, brought next to each other, are one of d*d elements, of which each (d+1)-th lies on
// the diagonal.
func (l *einsumLowering) diagonals() {
	for i := range l.terms {
		t := &l.terms[i]
		for p := 0; p < len(t.letters); p++ {
			for q := strings.LastIndexByte(t.letters, t.letters[p]); q > p; q = strings.LastIndexByte(t.letters, t.letters[p]) {
				l.cut(t, p, q)
			}
		}
	}
}

// cut cuts out the diagonal over the equal dims p < q of an operand, which becomes its dim p.
func (l *einsumLowering) cut(t *einsumTerm, p, q int) {
	if q > p+1 {
		var perm []int64
		for k := range t.letters {
			if k != q {
				perm = append(perm, int64(k))
			}
		}
		t.v = l.add(Op{Name: "Transpose"}, []Attr{IntsAttr("perm", slices.Insert(perm, p+1, int64(q))...)}, t.v)
	}
	t.letters = t.letters[:q] + t.letters[q+1:]
	groups := strings.Split(t.letters, "")
	groups[p] += groups[p]
	d, _ := l.dims[t.letters[p]].Const()
	v := l.reshaped(t.v, groups)
	in := []*Value{v}
	for _, k := range []int64{0, d * d, int64(p), d + 1} { // start, end, axis, step
		in = append(in, l.s.g.AddConst("", tensor.From([]int64{k})))
	}
	t.v = l.add(Op{Name: "Slice"}, nil, in...)
}

// writable reports whether the shapes of intermediate results can be written down, or need not be, and the operators are there for the type,
// and chooses the Reshape that takes a 0 for an empty dim where there may be one.
func (l *einsumLowering) writable() bool {
	l.views = l.loose != ""
	for _, d := range l.dims {
		l.views = l.views || !l.s.computable([]Dim{d})
		if n, ok := d.Const(); !ok || n == 0 {
			l.reshape.Since = 14
		}
	}
	if l.views && !l.plain() {
		return false
	}
	if !l.views && l.reshape.Since != 0 && l.s.o.NewOps != nil && !l.s.o.NewOps(l.reshape) {
		return false
	}
	t := Type{Kind: KindTensor, DType: l.terms[0].v.Type.DType}
	return l.s.has(Op{Name: "Transpose"}, t, t) && (l.views || l.s.has(l.reshape, t, t)) && l.s.has(Op{Name: "ReduceSum"}, t, t) &&
		l.s.has(Op{Name: "Mul"}, t, t, t) && l.s.has(Op{Name: "MatMul"}, t, t, t)
}

// pair makes of an equation of more than two operands one with one operand less: an Einsum of its own takes the two of which the least is left
// behind, the first of such. It keeps the letters that the others or the result have. Where there are no names for its letters nothing is changed, and it
// reports false.
func (l *einsumLowering) pair() (bool, error) {
	bestI, bestJ, least := -1, -1, math.Inf(1)
	for j := range l.terms {
		for i := range j {
			if size := l.sizeOf(l.kept(i, j)); size < least {
				bestI, bestJ, least = i, j, size
			}
		}
	}
	names, ok := l.names()
	if !ok || bestI < 0 {
		return false, nil
	}
	l.diagonals()
	x, y, kept := l.terms[bestI], l.terms[bestJ], l.kept(bestI, bestJ)
	l.s.changes++
	v := l.add(l.n.Op, []Attr{StringAttr("equation", names(x.letters)+","+names(y.letters)+"->"+names(kept))}, x.v, y.v)
	terms := []einsumTerm{{v, kept}}
	for k, t := range l.terms {
		if k != bestI && k != bestJ {
			terms = append(terms, t)
		}
	}
	var in []*Value
	var letters []string
	for _, t := range terms {
		in, letters = append(in, t.v), append(letters, names(t.letters))
	}
	l.n.Rewrite(l.n.Op, []Attr{StringAttr("equation", strings.Join(letters, ",")+"->"+names(l.out))}, in...)
	if l.err == nil {
		l.err = InferNode(l.n)
	}
	return true, l.err
}

// kept returns the letters of two operands that the others or the result have.
func (l *einsumLowering) kept(i, j int) string {
	others := l.out
	for k, t := range l.terms {
		if k != i && k != j {
			others += t.letters
		}
	}
	x, y := l.terms[i].letters, l.terms[j].letters
	return within(x+without(y, x), others)
}

// sizeOf estimates how many elements a tensor with these letters has: a dim that is not known counts as 64.
func (l *einsumLowering) sizeOf(letters string) float64 {
	size := 1.0
	for k := range letters {
		n, ok := l.dims[letters[k]].Const()
		if !ok {
			n = 64
		}
		size *= float64(n)
	}
	return size
}

// names returns what names letters in an equation, where those behind an ellipsis get letters that no operand has; ok is false where there are
// none left.
func (l *einsumLowering) names() (of func(string) string, ok bool) {
	free := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var hidden []byte
	for c := range l.dims {
		if free = strings.ReplaceAll(free, string(c), ""); c >= '0' && c <= '9' {
			hidden = append(hidden, c)
		}
	}
	slices.Sort(hidden)
	if len(hidden) > len(free) {
		return nil, false
	}
	return func(letters string) string {
		return strings.Map(func(r rune) rune {
			if i := slices.Index(hidden, byte(r)); i >= 0 {
				return rune(free[i])
			}
			return r
		}, letters)
	}, true
}

func (l *einsumLowering) write() error {
	l.diagonals()
	for i := range l.terms {
		kept := l.out
		if len(l.terms) == 2 {
			kept += l.terms[1-i].letters
		}
		l.sum(&l.terms[i], kept)
	}
	switch {
	case len(l.terms) == 1:
		l.last(l.terms[0])
	case strings.Trim(l.terms[0].letters, l.out) == "" && strings.Trim(l.terms[1].letters, l.out) == "":
		l.multiply()
	default:
		l.contract()
	}
	if l.err == nil {
		l.err = InferNode(l.n)
	}
	return l.err
}

// sum sums an operand over its letters that are not kept.
func (l *einsumLowering) sum(t *einsumTerm, kept string) {
	var axes []int64
	for k := range t.letters {
		if strings.IndexByte(kept, t.letters[k]) < 0 {
			axes = append(axes, int64(k))
		}
	}
	if len(axes) == 0 {
		return
	}
	*t = einsumTerm{l.alongAxes(Op{Name: "ReduceSum"}, t.v, axes, IntAttr("keepdims", 0)), within(t.letters, kept)}
}

// multiply lowers an equation that sums over no letter of both operands: the operands are aligned with the result.
func (l *einsumLowering) multiply() {
	var in []*Value
	for _, t := range l.terms {
		letters := within(l.out, t.letters)
		v := l.order(t, letters)
		if !strings.HasSuffix(l.out, letters) {
			groups := strings.Split(l.out, "")
			for i, letter := range groups {
				if !strings.Contains(letters, letter) {
					groups[i] = ""
				}
			}
			v = l.reshaped(v, groups)
		}
		in = append(in, v)
	}
	l.n.Rewrite(Op{Name: "Mul"}, nil, in...)
}

// einsumProduct is an equation as x of [batch, m, k] times y of [batch, k, n].
type einsumProduct struct {
	x, y           einsumTerm
	batch, m, n, k string
}

// product says two operands, whose letters are all the other's or the result's, as a product. They change places where the result then needs no transposition.
func (l *einsumLowering) product(x, y einsumTerm) einsumProduct {
	both := within(x.letters, y.letters)
	batch := within(l.out, both)
	p := einsumProduct{x: x, y: y, batch: batch, k: without(both, batch), m: within(l.out, without(x.letters, both)), n: within(l.out, without(y.letters, both))}
	if l.out == batch+p.n+p.m && l.out != batch+p.m+p.n {
		p.x, p.y, p.m, p.n = y, x, p.n, p.m
	}
	return p
}

// contract lowers an equation to [batch, m, k] times [batch, k, n].
func (l *einsumLowering) contract() {
	p := l.product(l.terms[0], l.terms[1])
	x, y, batch, m, n, k := p.x, p.y, p.batch, p.m, p.n, p.k
	rows := []string{m}
	if batch == "" && m != "" { // the product takes them all
		rows = strings.Split(m, "")
	}
	left := l.merged(l.order(x, batch+m+k), batch+m+k, append(append(strings.Split(batch, ""), rows...), k))
	right := l.merged(l.order(y, batch+k+n), batch+k+n, append(strings.Split(batch, ""), k, n))
	if len(n) == 1 && len(rows) == 1 && len(m) == 1 && l.out == batch+m+n || batch == "" && len(n) == 1 && m != "" && l.out == m+n {
		l.n.Rewrite(Op{Name: "MatMul"}, nil, left, right)
		return
	}
	v := l.add(Op{Name: "MatMul"}, nil, left, right)
	if l.views {
		if v = l.narrowed(v, len(batch), append(slices.Clone(rows), n)); l.out == batch+m+n {
			l.n.Rewrite(Op{Name: "Identity"}, nil, v)
			return
		}
	} else if len(n) != 1 || len(rows) != len(m) {
		if l.out == batch+m+n {
			l.n.Rewrite(l.reshape, l.reshapeAttrs(), v, l.shape(strings.Split(l.out, "")))
			return
		}
		v = l.reshaped(v, strings.Split(batch+m+n, ""))
	}
	l.last(einsumTerm{v, batch + m + n})
}

// merged reshapes v, whose dims are letters, to one dim per group of letters.
func (l *einsumLowering) merged(v *Value, letters string, groups []string) *Value {
	if len(groups) == len(letters) && !slices.Contains(groups, "") {
		return v
	}
	return l.reshaped(v, groups)
}

// reshaped reshapes v to one dim per group of letters.
func (l *einsumLowering) reshaped(v *Value, groups []string) *Value {
	if l.views {
		return l.alongAxes(Op{Name: "Unsqueeze"}, v, empty(groups, 0))
	}
	return l.add(l.reshape, l.reshapeAttrs(), v, l.shape(groups))
}

// narrowed takes the dims of 1 from v that stand for an empty group behind as many dims as first.
func (l *einsumLowering) narrowed(v *Value, first int, groups []string) *Value {
	axes := empty(groups, first)
	if len(axes) == 0 {
		return v
	}
	return l.alongAxes(Op{Name: "Squeeze"}, v, axes)
}

// empty returns the places of empty groups, counted from first on.
func empty(groups []string, first int) (places []int64) {
	for i, g := range groups {
		if g == "" {
			places = append(places, int64(first+i))
		}
	}
	return places
}

// alongAxes adds a node with axes, which are an operand since operator set 13, and an attribute before.
func (l *einsumLowering) alongAxes(op Op, v *Value, axes []int64, attrs ...Attr) *Value {
	if versionFor(l.s.g, op) >= 13 {
		return l.add(op, attrs, v, l.s.g.AddConst("", tensor.From(axes)))
	}
	return l.add(op, append(attrs, IntsAttr("axes", axes...)), v)
}

// shape returns the shape of dims that are products of letters' dims, 1 for an empty group.
func (l *einsumLowering) shape(groups []string) *Value {
	dims := make([]Dim, len(groups))
	for i, g := range groups {
		dims[i] = D(1)
		for k := range g {
			dims[i] = dims[i].Mul(l.dims[g[k]])
		}
	}
	return l.s.g.addKnown("", dims, TensorType(tensor.Int64, Shape{D(len(dims))}))
}

func (l *einsumLowering) reshapeAttrs() []Attr {
	if l.reshape.Since == 0 {
		return nil
	}
	return []Attr{IntAttr("allowzero", 1)}
}

// order transposes an operand to the order of letters.
func (l *einsumLowering) order(t einsumTerm, letters string) *Value {
	if t.letters == letters {
		return t.v
	}
	return l.add(Op{Name: "Transpose"}, []Attr{permAttr(t.letters, letters)}, t.v)
}

// last makes the node a transposition to the order of the result.
func (l *einsumLowering) last(t einsumTerm) {
	l.n.Rewrite(Op{Name: "Transpose"}, []Attr{permAttr(t.letters, l.out)}, t.v)
}

// add adds a node that is none of the model's and returns its result.
func (l *einsumLowering) add(op Op, attrs []Attr, in ...*Value) *Value {
	name := l.n.Name
	if name != "" {
		name += "/" + strings.ToLower(op.Name) + strconv.Itoa(l.s.g.NodeIDs())
	}
	n := l.s.g.AddNode(NodeSpec{Op: op, Name: name, Attrs: attrs, Inputs: in, Outputs: []string{""}, Origins: []string{}})
	if l.err == nil {
		l.err = InferNode(n)
	}
	return n.Outputs[0]
}

func permAttr(from, to string) Attr {
	perm := make([]int64, len(to))
	for i := range perm {
		perm[i] = int64(strings.IndexByte(from, to[i]))
	}
	return IntsAttr("perm", perm...)
}

// within returns the letters of a that b has too, without those that it has not.
func within(a, b string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(b, r) {
			return r
		}
		return -1
	}, a)
}

func without(a, b string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(b, r) {
			return -1
		}
		return r
	}, a)
}
