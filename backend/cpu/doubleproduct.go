package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Products of matrices of float64.

// doublePanel is how many columns a panel of the right operand has.
const doublePanel = 8

// Formats of the constant right operand.
var (
	doublesKN = mustFormat("Ba8b") // of B[K, N]
	doublesNK = mustFormat("Ab8a") // of B[N, K], transposed
)

func doubleMatMulSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	a, b := n.Inputs[0], n.Inputs[1]
	if len(a.Type.Shape) == 0 || len(b.Type.Shape) == 0 {
		return nil, property.Because(property.ShapeReason, "operands of rank %d and %d", len(a.Type.Shape), len(b.Type.Shape))
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	if packable(b) && len(b.Type.Shape) == 2 {
		s.Name, s.Inputs[1] = "packed", graph.Fixed(doublesKN)
	}
	return []graph.Signature{s}, nil
}

func doubleGemmSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	s := graph.UniformSignature("row-major", n, rowMaj)
	if packable(n.Inputs[1]) {
		s.Name, s.Inputs[1] = "packed", graph.Fixed(doublesKN)
		if n.Int("transB", 0) != 0 {
			s.Inputs[1] = graph.Fixed(doublesNK)
		}
	}
	return []graph.Signature{s}, nil
}

func planDoubleMatMul(p *planner, n *graph.Node) error {
	a, b := n.Inputs[0], n.Inputs[1]
	da, db := matrixDims(p.Dims[a.ID], p.Dims[b.ID])
	spec := gemm.Spec{M: da[len(da)-2], N: db[len(db)-1], K: da[len(da)-1], B: gemm.Rows, Double: true}
	if b.Format != rowMaj {
		spec.B = gemm.Packed
	}
	o := operands{a: p.In(a), b: p.In(b), dimsA: da, dimsB: db}
	if o.oneMatrix() {
		spec.M *= product(da[:len(da)-2])
		return p.doubleProduct(spec, o, place.Nowhere, place.Nowhere, p.Out(n.Outputs[0]), []int{0}, []int{0})
	}
	batch := batchDims(da[:len(da)-2], db[:len(db)-2])
	return p.doubleProduct(spec, o, place.Nowhere, place.Nowhere, p.Out(n.Outputs[0]),
		matricesAt(place.Memory{}, batch, da).off, matricesAt(place.Memory{}, batch, db).off)
}

// doubleProduct emits products of matrices, which begin in the operands at a and b and follow each other in the result.
func (p *planner) doubleProduct(spec gemm.Spec, o operands, bias, residual, dst place.Memory, a, b []int) error {
	spec.Bias, spec.Residual = bias.Slot >= 0, residual.Slot >= 0
	if spec.B == gemm.Rows && spec.LDB == 0 {
		spec.LDB = spec.N
	}
	if spec.B == gemm.Columns || packsDoubles(p.target, &spec) {
		o.b, b = p.packedFirst(o.b, b, &spec)
		spec.B, spec.LDB = gemm.Packed, 0
	}
	plan, err := gemm.NewPlan(p.target, spec)
	if err != nil {
		return err
	}
	chunks := plan.Chunks()
	p.emit(step{chunks: len(a) * chunks, grain: productGrain(plan), work: 1, body: func(st *state, _, lo, hi int) {
		x := gemm.Doubles{Bias: f64(st, bias), Res: f64(st, residual)}
		av, bv, cv := f64(st, o.a), f64(st, o.b), f64(st, dst)
		for lo < hi {
			i := lo / chunks
			end := min(hi, (i+1)*chunks)
			x.A, x.B, x.C = av[a[i]:], bv[b[i]:], cv[i*spec.M*spec.N:]
			plan.RunDouble(lo-i*chunks, end-i*chunks, x)
			lo = end
		}
	}}, []place.Memory{o.a, o.b, bias, residual}, []place.Memory{dst})
	return nil
}

// packsDoubles is packsFirst for float64. An Intel Granite Rapids (AVX-512, 2 MiB) takes 0.68 to 1.0 of the time for 256 rows so and, where the second-level cache
// hardly holds the operand and lines of a panel fall on few sets, 0.4 to 0.8 of it from 64 rows on and 0.8 to 1.0 for 32.
func packsDoubles(t isa.Target, s *gemm.Spec) bool {
	if t.Set == isa.Portable || s.B != gemm.Rows || s.N < doublePanel {
		return false
	}
	return s.M >= leastPacked || s.M >= leastCrowded && 8*s.LDB%(crowdedBytes/2) == 0 && 8*s.K*s.N > t.SecondCache()/2
}

// packDoublesT packs panels of the transpose of a matrix of float64, of n rows of k that lie ld apart.
func packDoublesT(t isa.Target, dst, src []uint64, k, n, ld, first, last int) {
	for i := first; i < last; i++ {
		d, rows := dst[i*doublePanel*k:][:doublePanel*k], min(doublePanel, n-i*doublePanel)
		if rows < doublePanel {
			clear(d)
		}
		element.Transpose(t.Set, d, src[i*doublePanel*ld:], rows, k, ld, doublePanel)
	}
}

// planDoubleGemm emits a product; C is its bias where it has one value per column, its residual where it is a whole matrix, and else
// takes steps behind it, as do factors.
func planDoubleGemm(p *planner, n *graph.Node) error {
	a, b, out := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	da, db := p.Dims[a.ID], p.Dims[b.ID]
	o := operands{a: p.In(a), b: p.In(b)}
	if n.Int("transA", 0) != 0 {
		o.a = p.Temp(p.Bytes(a))
		p.permute(da, []int{1, 0}, 8, p.In(a), o.a)
		da = []int{da[1], da[0]}
	}
	spec := gemm.Spec{M: da[0], K: da[1], N: db[1], B: gemm.Packed, Double: true}
	if n.Int("transB", 0) != 0 {
		spec.N = db[0]
	}
	if b.Format == rowMaj {
		spec.B = gemm.Rows
		if n.Int("transB", 0) != 0 {
			spec.B = gemm.Columns
		}
	}
	alpha, beta, dst := float64(n.Float("alpha", 1)), float64(n.Float("beta", 1)), p.Out(out)
	bias, residual, c := place.Nowhere, place.Nowhere, n.Input(2)
	if c != nil && alpha == 1 && beta == 1 {
		switch d := p.Dims[c.ID]; {
		case len(d) > 0 && product(d) == spec.N && d[len(d)-1] == spec.N:
			bias, c = p.In(c), nil
		case sameDims(d, p.Dims[out.ID]):
			residual, c = p.In(c), nil
		}
	}
	if err := p.doubleProduct(spec, o, bias, residual, dst, []int{0}, []int{0}); err != nil {
		return err
	}
	kernels := p.doubles()
	scale := func(dst, src place.Memory, count int, by float64) {
		elements(p, src, dst, count, 0.2, func(d, s []float64) { kernels.Scale(d, s, by) })
	}
	if alpha != 1 {
		scale(dst, dst, spec.M*spec.N, alpha)
	}
	if c != nil {
		add := p.In(c)
		if beta != 1 {
			add = p.Temp(p.Bytes(c))
			scale(add, p.In(c), product(p.Dims[c.ID]), beta)
		}
		p.doubleBinary(double.Add, newBroadcast(p.laid(out), p.laid(out), compact(p.Dims[c.ID])), dst, add, dst)
	}
	return nil
}

func init() {
	registerDoubles(operator{Signatures: doubleMatMulSignatures, Plan: planDoubleMatMul}, 0, "MatMul")
	registerDoubles(operator{Signatures: doubleGemmSignatures, Plan: planDoubleGemm}, 0, "Gemm")
}
