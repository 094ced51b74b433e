package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
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
	if fuse.IsConst(b) && len(b.Type.Shape) == 2 {
		s.Name = "packed"
		s.Inputs[1] = graph.Fixed(packedKN)
	}
	return []graph.Signature{s}, nil
}

func gemmSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !isF32(n.Inputs...) {
		return nil, wrongDType(n.Inputs[0])
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	b := n.Inputs[1]
	if fuse.IsConst(b) {
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

// gemm emits a Gemm with its tail. C is the product's bias where it has one value per column, and its residual where it is
// a whole matrix; everything else takes steps of its own behind the product.
func (p *planner) gemm(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	a, b := in[0], in[1]
	da, db := p.Dims[a.ID], p.Dims[b.ID]
	spec := gemm.Spec{M: da[0], K: da[1], N: db[1], B: gemm.Rows}
	if n.Int("transB", 0) != 0 {
		spec.N, spec.B = db[0], gemm.Columns
	}
	if b.Format != rowMaj {
		spec.B = gemm.Packed
	}
	ma := p.In(a)
	if n.Int("transA", 0) != 0 {
		spec.M, spec.K = da[1], da[0]
		ma = p.Temp(ma.Size)
		p.strided(copySpec{dims: []int{spec.M, spec.K}, src: []int{1, spec.M}, dst: []int{spec.K, 1}, size: 4}, p.In(a), ma)
	}
	var c, bias *graph.Value
	if len(in) > 2 {
		c = in[2]
	}
	alpha, beta := n.Float("alpha", 1), n.Float("beta", 1)
	if c != nil && alpha == 1 && beta == 1 {
		switch dc := p.Dims[c.ID]; {
		case len(dc) > 0 && product(dc) == spec.N && dc[len(dc)-1] == spec.N:
			bias, c = c, nil
		case sameDims(dc, []int{spec.M, spec.N}) && t.residual == nil:
			t.residual, c = c, nil
		}
	}
	if c == nil && alpha == 1 {
		return p.product(spec, 1, batchStrides{}, ma, p.In(b), bias, t, out)
	}
	if err := p.product(spec, 1, batchStrides{}, ma, p.In(b), nil, tail{}, out); err != nil {
		return err
	}
	return p.gemmTail(alpha, beta, c, t, out)
}

// gemmTail finishes a product in out: out·alpha + C·beta, then the tail.
func (p *planner) gemmTail(alpha, beta float32, c *graph.Value, t tail, out *graph.Value) error {
	dst, dims := p.In(out), p.Dims[out.ID]
	scale := func(dst, src place.Memory, by float32) {
		elements(p, src, dst, 0.1, func(d, s []float32) { vec.BinaryScalar(vec.Mul, d, s, by) })
	}
	if alpha != 1 {
		scale(dst, dst, alpha)
	}
	if c != nil {
		add := p.In(c)
		if beta != 1 {
			add = p.Temp(add.Size)
			scale(add, p.In(c), beta)
		}
		p.binaryOver(vec.Add, newBroadcast(dims, dims, p.Dims[c.ID]), dst, add, dst)
	}
	if t.residual != nil {
		p.binaryOver(vec.Add, newBroadcast(dims, dims, p.Dims[t.residual.ID]), dst, p.In(t.residual), dst)
	}
	if t.act.some {
		p.unary(t.act, dst, dst, padding{})
	}
	return nil
}

// matmul emits a MatMul with its tail; bias has one value per column.
func (p *planner) matmul(n *graph.Node, in []*graph.Value, out *graph.Value, bias *graph.Value, t tail) error {
	a, b := in[0], in[1]
	da, db := p.Dims[a.ID], p.Dims[b.ID]
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
		return p.product(gemm.Spec{M: m, N: cols, K: k, B: form}, 1, batchStrides{}, p.In(a), p.In(b), bias, t, out)
	}
	batch := batchDims(da[:len(da)-2], db[:len(db)-2])
	s := batchStrides{c: m * cols, offA: batchOffsets(batch, da[:len(da)-2], m*k), offB: batchOffsets(batch, db[:len(db)-2], k*cols)}
	return p.product(gemm.Spec{M: m, N: cols, K: k, B: form}, product(batch), s, p.In(a), p.In(b), bias, t, out)
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
func (p *planner) product(spec gemm.Spec, batch int, s batchStrides, ma, mb place.Memory, bias *graph.Value, t tail, out *graph.Value) error {
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
	none := place.Nowhere
	mbias, mres := none, none
	if t.residual != nil && batch == 1 { // operands are read after results are written
		if at := p.In(t.residual).Slot; at != ma.Slot && at != mb.Slot {
			p.inPlace(out, t.residual)
		}
	}
	dst := p.Out(out)
	if bias != nil {
		mbias = p.In(bias)
	}
	if t.residual != nil {
		mres = p.In(t.residual)
	}
	chunks := plan.Chunks()
	st := step{chunks: batch * chunks, grain: grainFor(float64(plan.Flops()) / float64(max(chunks, 1)) / 60)}
	st.label.FLOPs = float64(plan.Flops() * batch)
	st.label.Name, st.label.Op, st.label.Origins = p.Node.Name, labelOp(p.Node), p.Node.Provenance()
	if batch == 1 {
		st.body = func(st *state, _, lo, hi int) {
			plan.Run(lo, hi, gemm.Args{A: st.F32(ma), B: st.F32(mb), Bias: st.F32(mbias), Res: st.F32(mres), C: st.F32(dst)})
		}
	} else {
		st.body = func(st *state, _, lo, hi int) {
			av, bv, bias, res, cv := st.F32(ma), st.F32(mb), st.F32(mbias), st.F32(mres), st.F32(dst)
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
	p.emit(st, []place.Memory{ma, mb, mbias, mres}, []place.Memory{dst})
	return nil
}

func init() {
	register("MatMul", operator{matmulSignatures, planMatMul})
	register("Gemm", operator{gemmSignatures, planGemm})
}
