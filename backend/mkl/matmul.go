package mkl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// productForm is a MatMul or Gemm with a constant second operand, as an inner product: [rows, k] with [columns, k].
type productForm struct {
	rows, k, columns int
	transposed       bool // the constant is [k, columns] in the model
}

// constantProduct returns the form of a MatMul or Gemm whose second operand is a constant matrix.
func constantProduct(n *graph.Node, a, b []int) (f productForm, ok bool) {
	if len(b) != 2 || len(a) < 1 || !fuse.IsConst(n.Inputs[1]) {
		return f, false
	}
	f.transposed = n.Is("MatMul") || n.Int("transB", 0) == 0
	f.k, f.columns = b[0], b[1]
	if !f.transposed {
		f.k, f.columns = b[1], b[0]
	}
	f.rows = product(a[:len(a)-1])
	return f, a[len(a)-1] == f.k && f.rows > 0 && f.k > 0 && f.columns > 0
}

func (f productForm) weights() []int { return []int{f.columns, f.k} }

// format turns the library's layout of weights into one of the constant.
func (f productForm) format(b blocking) (graph.Layout, bool) {
	l, ok := b.layout()
	if ok && f.transposed {
		return swapped(l, 2)
	}
	return l, ok
}

// rowMajor describes the constant as it is in the model.
func (f productForm) rowMajor() shape {
	s, _ := f.shape(graph.RowMajor)
	return s
}

// weightsIn describes a constant in a format to the library; ok is false where that is not possible.
func (f productForm) weightsIn(b *mkl, format graph.Format) (shape, bool) {
	if w := b.packedLayout(format.Layout); w != nil {
		return w.to, slices.Equal(w.from.dims, f.weights())
	}
	if format.Layout.IsOpaque() {
		return shape{}, false
	}
	return f.shape(format.Layout)
}

// shape describes a constant in layout l to the library.
func (f productForm) shape(l graph.Layout) (shape, bool) {
	ok := true
	if f.transposed {
		l, ok = swapped(l, 2)
	}
	return in(l, f.weights()), ok
}

func matmulSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	da, db := operators.AssumedDims(n.Inputs[0]), operators.AssumedDims(n.Inputs[1])
	if len(da) == 0 || len(db) == 0 || len(da) > maxDims || len(db) > maxDims {
		return nil, property.Because(property.ShapeReason, "operands of rank %d and %d", len(da), len(db))
	}
	if n.Is("Gemm") {
		if why := gemmRefused(n); why != nil {
			return nil, why
		}
	}
	s := graph.UniformSignature("row-major", n, graph.HostFormat)
	f, ok := constantProduct(n, da, db)
	if !ok {
		if n.Is("Gemm") && !fuse.IsConst(n.Inputs[1]) {
			return nil, property.Because(property.Unsupported, "operand %v is not constant", n.Inputs[1])
		}
		if len(da) < 2 || len(db) < 2 {
			return nil, property.Because(property.ShapeReason, "operands of rank %d and %d", len(da), len(db))
		}
		r, err := b.batched(da, db, operators.AssumedDims(n.Outputs[0]), nil, nil, nil)
		if err != nil {
			return nil, property.Because(property.ShapeReason, "%v", err)
		}
		if why := refused(b.l.ask(b.answers, r)); why != nil {
			return nil, why
		}
		s.Name = "matmul"
		return []graph.Signature{s}, nil
	}
	a := b.l.ask(b.answers, b.l.innerProduct(plain(f.rows, f.k), anyOf(f.weights()), shape{}, plain(f.rows, f.columns), nil))
	if why := refused(a); why != nil {
		return nil, why
	}
	weights, err := b.weightFormat(db, f.rowMajor(), a.weights, f.format, a.how)
	if err != nil {
		return nil, property.Because(property.Unsupported, "%v", err)
	}
	if _, static := n.Inputs[0].Type.Shape.Static(); static || !weights.Layout.IsOpaque() {
		s.Inputs[1] = graph.Fixed(weights)
	}
	s.Name = a.impl
	return []graph.Signature{s}, nil
}

// gemmRefused tells why a Gemm is none that the library runs.
func gemmRefused(n *graph.Node) *property.Reason {
	c := n.Input(2)
	if n.Float("alpha", 1) != 1 || c != nil && n.Float("beta", 1) != 1 || n.Int("transA", 0) != 0 {
		return property.Because(property.Attribute, "alpha, beta or transA of %v", n)
	}
	if c == nil {
		return nil
	}
	columns, ok1 := operators.ConstDim(n.Outputs[0], 1)
	last, ok2 := operators.ConstDim(c, len(c.Type.Shape)-1)
	if !ok1 || !ok2 || last != columns || product(operators.AssumedDims(c)) != columns {
		return property.Because(property.ShapeReason, "C is %v", c.Type)
	}
	return nil
}

func planMatMul(p *planner, n *graph.Node) error {
	return p.product(n, n.Inputs, n.Outputs[0], nil, tail{})
}

// product emits a MatMul or Gemm with its tail; bias has one value per column.
func (p *planner) product(n *graph.Node, in []*graph.Value, out, bias *graph.Value, t tail) error {
	if n.Is("Gemm") && len(in) > 2 && in[2] != nil {
		bias = in[2]
	}
	a, b := in[0], in[1]
	f, ok := constantProduct(n, p.Dims[a.ID], p.Dims[b.ID])
	if !ok {
		if bias != nil {
			return fmt.Errorf("bias of a product of two activations")
		}
		return p.batched(a, b, out, nil, nil, t)
	}
	biasShape := shape{}
	if bias != nil {
		biasShape = plain(f.columns)
	}
	dst := plain(f.rows, f.columns)
	posts, args := p.tail(t, out, dst)
	var pr *primitive
	var err error
	format := b.Format
	given, ok := f.weightsIn(p.b, format)
	if !ok {
		return fmt.Errorf("weights in %v", format)
	}
	pr, err = p.make(p.l.innerProduct(plain(f.rows, f.k), given, biasShape, dst, posts))
	if err != nil || slow(pr.impl) || format == graph.HostFormat {
		best, err2 := p.make(p.l.innerProduct(plain(f.rows, f.k), anyOf(f.weights()), biasShape, dst, posts))
		switch {
		case err2 == nil:
			pr = best
			if format, err = p.b.weightFormat(p.Dims[b.ID], f.rowMajor(), pr.weights, f.format, pr.key); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	if pr.threads > 1 && f.rows >= evenRows {
		row := shape{}
		if bias != nil {
			row = plain(1, f.columns)
		}
		if even := p.evenly(f, format, row, dst, posts); even != nil {
			pr, biasShape = even, row
		}
	}
	weights, err := p.constant(b, format)
	if err != nil {
		return err
	}
	args = append(args, arg{argSrc, p.In(a), pr.src, false}, arg{argWeights, weights, pr.weights, false}, arg{argDst, p.Out(out), pr.dst, true})
	if bias != nil {
		d, err := p.desc(biasShape)
		if err != nil {
			return err
		}
		args = append(args, arg{argBias, p.In(bias), d, false})
	}
	p.run(pr, args...)
	return nil
}

// evenRows is the number of rows from which on the library's products of matrices share rows out among threads more evenly
// than its inner products do, which cut few large blocks: 197 rows take two threads 1.2 times as long (oneDNN 2.6.3).
const evenRows = 64

// evenly returns the product of matrices that does what an inner product does, with the same weights; nil where the library
// has none made of blocks.
func (p *planner) evenly(f productForm, format graph.Format, bias, dst shape, posts []post) *primitive {
	w, ok := f.weightsIn(p.b, format)
	if !ok || w.layout.IsOpaque() {
		return nil
	}
	l, ok := swapped(w.layout, 2)
	if !ok {
		return nil
	}
	pr, err := p.make(p.l.matmul(plain(f.rows, f.k), in(l, []int{f.k, f.columns}), bias, dst, posts))
	if err != nil || !strings.HasPrefix(pr.impl, "brg:") {
		return nil
	}
	return pr
}

// batched is the recipe of a product of two activations. permA and permB, where they are not nil, say that the operands are
// stored as the dims whose transposition is multiplied.
func (b *mkl) batched(da, db, dy []int, permA, permB []int, posts []post) (recipe, error) {
	a, err := operandShape(da, permA, len(dy))
	if err != nil {
		return recipe{}, err
	}
	w, err := operandShape(db, permB, len(dy))
	if err != nil {
		return recipe{}, err
	}
	y := plain(dy...)
	for i := range len(dy) - 2 {
		if a.dims[i] != y.dims[i] && w.dims[i] != y.dims[i] {
			return recipe{}, fmt.Errorf("batch dims %v and %v", da, db)
		}
	}
	a, w, y = mergeBatch(a, w, y)
	return b.l.matmul(a, w, shape{}, y, posts), nil
}

// operandShape describes an operand, with dims of 1 in front up to that rank. d are the dims of the transposed operand.
func operandShape(d, perm []int, rank int) (shape, error) {
	if len(d) > rank {
		return shape{}, fmt.Errorf("rank %d of %d", len(d), rank)
	}
	strides := make([]int, len(d))
	n := 1
	for i := len(d) - 1; i >= 0; i-- {
		k := i
		if perm != nil { // stored dim i is transposed dim j with perm[j] = i
			k = slices.Index(perm, i)
		}
		strides[k] = n
		n *= d[k]
	}
	s := shape{dtype: dtypeF32}
	for range rank - len(d) {
		s.dims = append(s.dims, 1)
		s.strides = append(s.strides, n)
	}
	s.dims, s.strides = append(s.dims, d...), append(s.strides, strides...)
	return s, nil
}

// mergeBatch puts batch dims together that all three operands have and step through alike, so that the library sees few.
func mergeBatch(a, w, y shape) (shape, shape, shape) {
	n := len(y.dims)
	ys := make([]int, n)
	k := 1
	for i := n - 1; i >= 0; i-- {
		ys[i] = k
		k *= y.dims[i]
	}
	y.strides = ys
	list := []*shape{&a, &w, &y}
	for i := n - 4; i >= 0; i-- {
		ok := true
		for _, s := range list {
			same := s.dims[i] == y.dims[i] && s.dims[i+1] == y.dims[i+1] && s.strides[i] == s.strides[i+1]*s.dims[i+1]
			ones := s.dims[i] == 1 && s.dims[i+1] == 1
			ok = ok && (same || ones)
		}
		if !ok {
			continue
		}
		for _, s := range list {
			s.dims, s.strides = slices.Clone(s.dims), slices.Clone(s.strides)
			s.dims[i+1] *= s.dims[i]
			s.dims, s.strides = slices.Delete(s.dims, i, i+1), slices.Delete(s.strides, i, i+1)
		}
	}
	return a, w, y
}

// batched emits a product of two activations with its tail.
func (p *planner) batched(a, b, out *graph.Value, permA, permB []int, t tail) error {
	da, db, dy := transposed(p.Dims[a.ID], permA), transposed(p.Dims[b.ID], permB), p.Dims[out.ID]
	if len(da) < 2 || len(db) < 2 {
		return fmt.Errorf("product of %v and %v", da, db)
	}
	if t.residual != nil {
		return fmt.Errorf("residual of a product of two activations")
	}
	r, err := p.b.batched(da, db, dy, permA, permB, t.act)
	if err != nil {
		return err
	}
	pr, err := p.make(r)
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(a), pr.src, false}, arg{argWeights, p.In(b), pr.weights, false},
		arg{argDst, p.Out(out), pr.dst, true})
	return nil
}

// transposed returns the dims after a transposition, d itself without one.
func transposed(d, perm []int) []int {
	if perm == nil {
		return d
	}
	out := make([]int, len(perm))
	for i, k := range perm {
		out[i] = d[k]
	}
	return out
}

func init() {
	table.Register("MatMul", operator{Signatures: matmulSignatures, Plan: planMatMul, Strided: manyRows, Single: true})
	table.Register("Gemm", operator{Signatures: matmulSignatures, Plan: planMatMul})
}
