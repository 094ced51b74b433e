package gpugroup

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func productSignature(d *Device, n, one *graph.Node) (graph.Signature, *property.Reason) {
	here := d.format(graph.RowMajor)
	sig := graph.Signature{Name: "product", Outputs: []graph.Port{graph.Fixed(here)}}
	for range n.Inputs {
		sig.Inputs = append(sig.Inputs, graph.Fixed(here))
	}
	var s gpukernel.ProductShape
	var err error
	if n.Is("Gemm") {
		if s, _, _, err = gemmShape(one); err == nil && s.TransposedB && fuse.IsConst(n.Inputs[1]) {
			sig.Inputs[1] = graph.Fixed(d.format(transposed()))
		}
	} else {
		s, err = matMulShape(one)
	}
	if err == nil {
		_, err = gpukernel.Product("k", d.Kernels, s)
	}
	if err != nil {
		return sig, property.Because(property.ShapeReason, "%v", err)
	}
	return sig, nil
}

// matMulShape returns a MatMul of static shapes in the kernels' terms.
func matMulShape(n *graph.Node) (s gpukernel.ProductShape, err error) {
	a, b := dims(n.Inputs[0]), dims(n.Inputs[1])
	if len(a) == 1 {
		a = []int{1, a[0]}
	}
	if len(b) == 1 {
		b = []int{b[0], 1}
	}
	if len(a) < 2 || len(b) < 2 || a[len(a)-1] != b[len(b)-2] {
		return s, fmt.Errorf("a product of %v and %v", a, b)
	}
	s = gpukernel.ProductShape{M: a[len(a)-2], K: a[len(a)-1], N: b[len(b)-1]}
	s.A = gpukernel.Matrix{Type: keptAs(n.Inputs[0]), Stride: s.K}
	s.B = gpukernel.Matrix{Type: keptAs(n.Inputs[1]), Stride: s.N}
	s.C = gpukernel.Matrix{Type: keptAs(n.Outputs[0]), Stride: s.N}
	batch := batchOf(a[:len(a)-2], b[:len(b)-2])
	if len(batch) == 1 && batch[0].b == 0 { // all rows times one matrix
		s.M *= batch[0].size
		return s, nil
	}
	if len(batch) > 2 {
		return s, fmt.Errorf("a batch %v times %v", a, b)
	}
	for len(batch) < 2 {
		batch = append([]batchDim{{1, 0, 0, 0}}, batch...)
	}
	s.Batch0, s.Batch1 = batch[0].size, batch[1].size
	s.A.Batch0, s.A.Batch1 = batch[0].a*s.M*s.K, batch[1].a*s.M*s.K
	s.B.Batch0, s.B.Batch1 = batch[0].b*s.K*s.N, batch[1].b*s.K*s.N
	s.C.Batch0, s.C.Batch1 = batch[0].c*s.M*s.N, batch[1].c*s.M*s.N
	return s, nil
}

// batchDim is a dim of a batch, with the matrices that operands and result advance by along it; 0 where there is one for all.
type batchDim struct{ size, a, b, c int }

// batchOf returns the dims of a batch, outermost first, in which those that advance alike are one.
func batchOf(a, b []int) []batchDim {
	rank := max(len(a), len(b))
	extent := func(d []int, i int) int {
		if i -= rank - len(d); i < 0 {
			return 1
		}
		return d[i]
	}
	var list []batchDim
	na, nb, nc := 1, 1, 1
	for i := rank - 1; i >= 0; i-- {
		da, db := extent(a, i), extent(b, i)
		x := batchDim{size: max(da, db), c: nc}
		if da > 1 {
			x.a = na
		}
		if db > 1 {
			x.b = nb
		}
		na, nb, nc = na*da, nb*db, nc*x.size
		if x.size == 1 {
			continue
		}
		if len(list) > 0 {
			if y := list[0]; x.a == y.a*y.size && x.b == y.b*y.size {
				list[0].size *= x.size
				continue
			}
		}
		list = slices.Insert(list, 0, x)
	}
	return list
}

func planMatMul(p *planner, n *graph.Node, t tail) error {
	s, err := matMulShape(n)
	if err != nil {
		return err
	}
	return p.product(n, s, t)
}

// gemmShape returns a Gemm of static shapes in the kernels' terms, with what is done to the product: by alpha, and plus C. made says
// that C has to be made an addend [M, N] first.
func gemmShape(n *graph.Node) (s gpukernel.ProductShape, finish []gpukernel.Step, made bool, err error) {
	a, b := dims(n.Inputs[0]), dims(n.Inputs[1])
	if n.Int("transA", 0) != 0 {
		a = []int{a[1], a[0]}
	}
	s = gpukernel.ProductShape{M: a[0], K: a[1], N: b[1], TransposedB: n.Int("transB", 0) != 0}
	s.A = gpukernel.Matrix{Type: keptAs(n.Inputs[0]), Stride: s.K}
	if s.TransposedB {
		s.N = b[0]
	}
	s.B = gpukernel.Matrix{Type: keptAs(n.Inputs[1]), Stride: b[1]}
	s.C = gpukernel.Matrix{Type: keptAs(n.Outputs[0]), Stride: s.N}
	if alpha := n.Float("alpha", 1); alpha != 1 {
		finish = append(finish, gpukernel.Step{Op: gpukernel.Scale, Alpha: alpha})
	}
	c := n.Input(2)
	if c == nil {
		return s, finish, false, nil
	}
	d := dims(c)
	switch plain := n.Float("beta", 1) == 1; {
	case plain && len(d) > 0 && d[len(d)-1] == s.N && elementsOf(c) == s.N:
		finish = append(finish, gpukernel.Step{Op: gpukernel.AddColumn, Operand: keptAs(c)})
	case len(d) > 2:
		return s, nil, false, fmt.Errorf("an addend of %v", d)
	default:
		finish = append(finish, gpukernel.Step{Op: gpukernel.AddMatrix, Operand: keptAs(c)})
		made = !plain || len(d) != 2 || d[0] != s.M || d[1] != s.N
	}
	return s, finish, made, nil
}

func planGemm(p *planner, n *graph.Node, t tail) error {
	s, finish, made, err := gemmShape(n)
	if err != nil {
		return err
	}
	if orderOf(n.Inputs[1]) == transposed() {
		s.TransposedB = !s.TransposedB
		s.B.Stride = s.N
	}
	left := p.In(n.Inputs[0])
	if n.Int("transA", 0) != 0 {
		var prog gpukernel.Program
		prog.Output(prog.Transpose(prog.Input("given", s.A.Type, s.K, s.M), 1, 0), "made")
		if left, err = p.make(&prog, left, s.A.Type.Size()*s.M*s.K); err != nil {
			return err
		}
	}
	var own tail
	for _, f := range finish {
		if f.Operand == "" {
			own.add(f, place.Nowhere)
			continue
		}
		at := p.In(n.Inputs[2])
		if made {
			var prog gpukernel.Program
			c := prog.Expand(prog.Input("given", s.C.Type, dims(n.Inputs[2])...), s.M, s.N)
			prog.Output(prog.Scalar(s.C.Type, "$0 * $1", c, prog.Float(s.C.Type, n.Float("beta", 1))), "made")
			if at, err = p.make(&prog, at, s.C.Type.Size()*s.M*s.N); err != nil {
				return err
			}
		}
		own.add(f, at)
	}
	return p.productOf(left, n, s, t.behind(own))
}

// make emits a program that makes so many bytes, "made", of what is "given", and returns where they are.
func (p *planner) make(prog *gpukernel.Program, given place.Memory, bytes int) (place.Memory, error) {
	plan, err := gpukernel.Render("make", p.d, prog)
	if err != nil {
		return place.Nowhere, err
	}
	at := p.Temp(bytes)
	return at, p.emit(0, plan, map[string]place.Memory{"given": given, "made": at})
}

// product emits a product of a node's first two operands.
func (p *planner) product(n *graph.Node, s gpukernel.ProductShape, t tail) error {
	return p.productOf(p.In(n.Inputs[0]), n, s, t)
}

// productOf emits a product of what lies somewhere and a node's second operand.
func (p *planner) productOf(left place.Memory, n *graph.Node, s gpukernel.ProductShape, t tail) error {
	s.Finish, s.Tile = t.steps, tileOf(n)
	if p.toLibrary(n) {
		if done, err := p.productByLibrary(left, n, s, t); done || err != nil {
			return err
		}
	}
	plan, err := gpukernel.Product("product", p.d, s)
	if err != nil {
		return err
	}
	return p.emit(1, plan, p.bind(t, map[string]place.Memory{"a": left, "b": p.In(n.Inputs[1]), "c": p.result(n.Outputs[0], t)}))
}
