package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/property"
)

// Formats of the constant right operand of matrix products: panels of 16 columns.
var (
	packedKN = mustFormat("Ba16b") // of B[K, N]
	packedNK = mustFormat("Ab16a") // of B[N, K], transposed
)

func matmulSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	a, b := n.Inputs[0], n.Inputs[1]
	if !isF32(n.Inputs...) {
		return nil, wrongDType(a)
	}
	if len(a.Type.Shape) == 0 || len(b.Type.Shape) == 0 {
		return nil, property.Because(property.ShapeReason, "operands of rank %d and %d", len(a.Type.Shape), len(b.Type.Shape))
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	if (b.IsConst() || isBodyInput(b) && constantBehind(b).IsConst()) && len(b.Type.Shape) == 2 {
		s.Name = "packed"
		s.Inputs[1] = graph.Fixed(packedKN)
	}
	return []graph.Signature{s}, nil
}

func gemmSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !isF32(n.Inputs...) {
		return nil, wrongDType(n.Inputs[0])
	}
	if n.Float("alpha", 1) != 1 || n.Float("beta", 1) != 1 && n.Input(2) != nil || n.Int("transA", 0) != 0 {
		return nil, property.Because(property.Attribute, "alpha, beta or transA of %v", n)
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	b := n.Inputs[1]
	if b.IsConst() || isBodyInput(b) && constantBehind(b).IsConst() {
		// Few rows could read B[N, K] as it is in the model, and compiling it would not read or copy it. But a mapped file has
		// small pages: with one row of A that costs vgg11, whose classifier has 494 MB, 7 to 9 % of its time.
		s.Name, s.Inputs[1] = "packed", graph.Fixed(packedKN)
		if n.Int("transB", 0) != 0 {
			s.Inputs[1] = graph.Fixed(packedNK)
		}
	}
	return []graph.Signature{s}, nil
}

func planMatMul(p *planner, n *graph.Node) error {
	return p.matmul(n, n.Inputs, n.Outputs[0], nil, tail{})
}

func planGemm(p *planner, n *graph.Node) error { return p.gemm(n, n.Inputs, n.Outputs[0], tail{}) }

// gemm emits a Gemm with its tail: C is the bias where it has one value per column.
func (p *planner) gemm(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	a, b := in[0], in[1]
	da, db := p.dims[a.ID], p.dims[b.ID]
	m, k, cols := da[0], da[1], db[1]
	form := gemm.Rows
	if n.Int("transB", 0) != 0 {
		cols, form = db[0], gemm.Columns
	}
	if b.Format != rowMaj {
		form = gemm.Packed
	}
	var bias *graph.Value
	if len(in) > 2 && in[2] != nil {
		c := in[2]
		switch dc := p.dims[c.ID]; {
		case len(dc) > 0 && product(dc) == cols && dc[len(dc)-1] == cols:
			bias = c
		case sameDims(dc, []int{m, cols}) && t.residual == nil:
			t.residual = c
		default:
			return p.gemmBroadcast(n, in, out, t)
		}
	}
	spec := gemm.Spec{M: m, N: cols, K: k, B: form}
	return p.product(spec, 1, batchStrides{}, a, b, bias, t, out)
}

// gemmBroadcast handles a C that is neither a row nor a whole matrix: product first, then a broadcasting addition.
func (p *planner) gemmBroadcast(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	if t.residual != nil || t.act.some {
		return fmt.Errorf("fused Gemm with C of shape %v", p.dims[in[2].ID])
	}
	if err := p.gemm(n, in[:2], out, t); err != nil {
		return err
	}
	dst := p.in(out)
	p.binaryOver(vec.Add, newBroadcast(p.dims[out.ID], p.dims[out.ID], p.dims[in[2].ID]), dst, p.in(in[2]), dst)
	return nil
}

// matmul emits a MatMul with its tail; bias has one value per column.
func (p *planner) matmul(n *graph.Node, in []*graph.Value, out *graph.Value, bias *graph.Value, t tail) error {
	a, b := in[0], in[1]
	da, db := p.dims[a.ID], p.dims[b.ID]
	if len(da) == 1 {
		da = []int{1, da[0]}
	}
	if len(db) == 1 {
		db = []int{db[0], 1}
	}
	m, k, cols := da[len(da)-2], da[len(da)-1], db[len(db)-1]
	form := gemm.Rows
	if b.Format != rowMaj {
		form = gemm.Packed
	}
	if product(db[:len(db)-2]) == 1 { // all batches of A are rows of one product
		m *= product(da[:len(da)-2])
		return p.product(gemm.Spec{M: m, N: cols, K: k, B: form}, 1, batchStrides{}, a, b, bias, t, out)
	}
	batch := batchDims(da[:len(da)-2], db[:len(db)-2])
	s := batchStrides{c: m * cols, offA: batchOffsets(batch, da[:len(da)-2], m*k), offB: batchOffsets(batch, db[:len(db)-2], k*cols)}
	return p.product(gemm.Spec{M: m, N: cols, K: k, B: form}, product(batch), s, a, b, bias, t, out)
}

func batchDims(a, b []int) []int {
	out := make([]int, max(len(a), len(b)))
	for i := range out {
		x, y := 1, 1
		if j := i - (len(out) - len(a)); j >= 0 {
			x = a[j]
		}
		if j := i - (len(out) - len(b)); j >= 0 {
			y = b[j]
		}
		out[i] = x
		if x == 1 {
			out[i] = y
		}
	}
	return out
}

// batchOffsets returns the element offset of each batch's matrix in an operand whose batch dims broadcast.
func batchOffsets(batch, dims []int, size int) []int {
	n := product(batch)
	out := make([]int, n)
	for i := range out {
		rest, off, stride := i, 0, size
		for k := len(batch) - 1; k >= 0; k-- {
			at := rest % batch[k]
			rest /= batch[k]
			if j := k - (len(batch) - len(dims)); j >= 0 {
				if dims[j] != 1 {
					off += at * stride
				}
				stride *= dims[j]
			}
		}
		out[i] = off
	}
	return out
}

// batchStrides tells where the matrices of a batch begin.
type batchStrides struct {
	c          int   // elements of one result
	offA, offB []int // element offset of each batch's operands
}

// product emits a matrix product, batched or not.
func (p *planner) product(spec gemm.Spec, batch int, s batchStrides, a, b, bias *graph.Value, t tail, out *graph.Value) error {
	spec.Bias, spec.Residual = bias != nil, t.residual != nil
	if t.act.some {
		if t.act.clip {
			spec.Clip, spec.Lo, spec.Hi = true, t.act.lo, t.act.hi
		} else {
			op, params := t.act.op, t.act.params
			spec.Post = func(c []float32, ldc, rows, cols int) { vec.ApplyRows(op, c, ldc, c, ldc, rows, cols, params) }
		}
	}
	plan, err := gemm.NewPlan(spec)
	if err != nil {
		return err
	}
	if t.residual != nil && batch == 1 && t.residual != a && t.residual != b { // operands are read after results are written
		p.inPlace(out, t.residual)
	}
	ma, mb, dst := p.in(a), p.in(b), p.out(out)
	none := memory{slot: -1}
	mbias, mres := none, none
	if bias != nil {
		mbias = p.in(bias)
	}
	if t.residual != nil {
		mres = p.in(t.residual)
	}
	chunks := plan.Chunks()
	st := step{chunks: batch * chunks, grain: grainFor(float64(plan.Flops()) / float64(max(chunks, 1)) / 60)}
	st.label.FLOPs = float64(plan.Flops() * batch)
	st.label.Name, st.label.Op, st.label.Origins = p.node.Name, labelOp(p.node), p.node.Provenance()
	if batch == 1 {
		st.body = func(st *state, _, lo, hi int) {
			plan.Run(lo, hi, gemm.Args{A: st.f32(ma), B: st.f32(mb), Bias: st.f32(mbias), Res: st.f32(mres), C: st.f32(dst)})
		}
	} else {
		st.body = func(st *state, _, lo, hi int) {
			av, bv, bias, res, cv := st.f32(ma), st.f32(mb), st.f32(mbias), st.f32(mres), st.f32(dst)
			for lo < hi {
				i := lo / chunks
				end := min(hi, (i+1)*chunks)
				args := gemm.Args{A: av[s.offA[i]:], B: bv[s.offB[i]:], Bias: bias, C: cv[i*s.c:]}
				if res != nil {
					args.Res = res[i*s.c:]
				}
				plan.Run(lo-i*chunks, end-i*chunks, args)
				lo = end
			}
		}
	}
	p.emit(st, []memory{ma, mb, mbias, mres}, []memory{dst})
	return nil
}

func init() {
	register("MatMul", operator{matmulSignatures, planMatMul})
	register("Gemm", operator{gemmSignatures, planGemm})
}
