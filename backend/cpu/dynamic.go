package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Dynamic quantisation: DynamicQuantizeLinear, and products of what it makes with the scaling, bias and activation behind them.

func dynamicQuantizeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	return operators.RowMajor(n), nil
}

// rangeElements is how many elements make a chunk of a range, or of its quantisation.
const rangeElements = 1 << 14

// planDynamicQuantize emits a step that finds the range of each chunk, and one that joins them and quantises.
func planDynamicQuantize(p *planner, n *graph.Node) error {
	src, kernels := p.In(n.Inputs[0]), p.integers
	count := product(p.Dims[n.Inputs[0].ID])
	dst, scale, zero := p.Out(n.Outputs[0]), place.Nowhere, place.Nowhere
	if len(n.Outputs) > 1 {
		scale = p.Out(n.Outputs[1])
	}
	if len(n.Outputs) > 2 {
		zero = p.Out(n.Outputs[2])
	}
	chunks := ceilDiv(count, rangeElements)
	ranges, chosen := p.Temp(12*chunks), p.Temp(8)
	part := func(x []float32, i int) []float32 { return x[i*rangeElements : min((i+1)*rangeElements, count)] }
	p.emit(step{chunks: chunks, grain: 1, body: func(st *state, _, lo, hi int) {
		x, r := st.F32(src), st.F32(ranges)
		for i := lo; i < hi; i++ {
			got := kernels.Range(part(x, i))
			r[3*i], r[3*i+1], r[3*i+2] = got.Lo, got.Hi, 0
			if got.NaN {
				r[3*i+2] = 1
			}
		}
	}}, []place.Memory{src}, []place.Memory{ranges})
	serial := func(st *state) {
		var all quant.Range
		for r := st.F32(ranges); len(r) > 0; r = r[3:] {
			all.Join(quant.Range{Lo: r[0], Hi: r[1], NaN: r[2] != 0})
		}
		l := dynamicLevels(all)
		c := st.F32(chosen)
		c[0], c[1] = l.Scale, float32(l.Zero)
		if s := st.F32(scale); s != nil {
			s[0] = l.Scale
		}
		if z := st.Bytes(zero); z != nil {
			z[0] = byte(l.Zero)
		}
	}
	p.emit(step{chunks: chunks, grain: 1, serial: serial, body: func(st *state, _, lo, hi int) {
		x, y, c := st.F32(src), st.Bytes(dst), st.F32(chosen)
		l := quant.Levels{Scale: c[0], Zero: int(c[1])}
		for i := lo; i < hi; i++ {
			from := part(x, i)
			to := y[i*rangeElements:][:len(from)]
			if !(l.Scale > 0) { // nothing but zeros, or NaN among them
				clear(to)
				continue
			}
			kernels.Quantize(to, from, l)
		}
	}}, []place.Memory{src, ranges, chosen}, []place.Memory{chosen, dst, scale, zero})
	return nil
}

// dynamicLevels are those that a range of numbers, which includes 0, is quantised to: the definition's, in its precision.
func dynamicLevels(r quant.Range) quant.Levels {
	scale := float32(float64(r.Hi)-float64(r.Lo)) / math.MaxUint8
	if r.NaN {
		scale = float32(math.NaN())
	}
	l := quant.Levels{Scale: scale}
	if scale > 0 {
		if zero := math.RoundToEven(float64(-r.Lo / scale)); zero == zero {
			l.Zero = int(min(max(zero, 0), math.MaxUint8))
		}
	}
	return l
}

// integerTail is what follows a product or convolution on integers where a model was quantised dynamically:
//
//	MatMulInteger | ConvInteger → Cast(float32) → Mul(scales) → [Add(bias)] → [activation]
//
// scales is one number, or one for each column or channel, of constants or of a run; the bias is constant.
type integerTail struct {
	head, cast, mul, add *graph.Node // add may be nil
	act                  *graph.Node // may be nil
	scales, bias         *graph.Value
	out                  *graph.Value
}

func (t *integerTail) nodes() []*graph.Node {
	list := []*graph.Node{t.head, t.cast, t.mul}
	for _, n := range []*graph.Node{t.add, t.act} {
		if n != nil {
			list = append(list, n)
		}
	}
	return list
}

// alongAxis reports whether v is a float32 tensor of one number, or of one for each index of an axis of a result, which it does not
// make larger.
func alongAxis(v, result *graph.Value, axis int) bool {
	rank := len(result.Type.Shape)
	if !operators.IsFloat32(v) || len(v.Type.Shape) > rank {
		return false
	}
	for i, d := range v.Type.Shape {
		n, ok := d.Const()
		if !(ok && n == 1) && !(rank-len(v.Type.Shape)+i == axis && d.Equal(result.Type.Shape[axis])) {
			return false
		}
	}
	return true
}

// integerHead returns the axis of the columns or channels of a product or convolution that the backend runs on integers.
func integerHead(n *graph.Node) (axis int, ok bool) {
	switch {
	case n.Is("MatMulInteger"):
		_, why := matmulIntegerSignatures(n)
		return len(n.Outputs[0].Type.Shape) - 1, why == nil && len(n.Inputs[1].Type.Shape) > 1
	case n.Is("ConvInteger"):
		_, why := convIntegerSignatures(n)
		return 1, why == nil
	}
	return 0, false
}

// integerTailOf reads what follows a head, nil where it is not scaled.
func integerTailOf(head *graph.Node) *integerTail {
	axis, ok := integerHead(head)
	if !ok {
		return nil
	}
	t := &integerTail{head: head}
	y := head.Outputs[0]
	if t.cast = fuse.Next(y); t.cast == nil || !t.cast.Is("Cast") || !operators.IsFloat32(t.cast.Outputs[0]) {
		return nil
	}
	v := t.cast.Outputs[0]
	if t.mul = fuse.Next(v); t.mul == nil || !t.mul.Is("Mul") {
		return nil
	}
	if t.scales = fuse.Other(t.mul, v); t.scales == nil || !alongAxis(t.scales, y, axis) {
		return nil
	}
	t.out = t.mul.Outputs[0]
	if n := fuse.Next(t.out); n != nil && n.Is("Add") {
		if b := fuse.Other(n, t.out); b != nil && fuse.IsConst(b) && alongAxis(b, y, axis) {
			t.add, t.bias, t.out = n, b, n.Outputs[0]
		}
	}
	if n := fuse.Next(t.out); n != nil && n.Input(0) == t.out && isActivation(n) {
		t.act, t.out = n, n.Outputs[0]
	}
	return t
}

// integerTailName is the name of the property of such tails.
const integerTailName = "integer-tail"

func fuseIntegerTail() property.SubgraphProperty {
	return property.Found(integerTailName, 3, func(seed *graph.Node) []*graph.Node {
		if t := integerTailOf(seed); t != nil {
			return t.nodes()
		}
		return nil
	})
}

// fusedIntegerTail reads the body of a fused node.
func fusedIntegerTail(n *graph.Node) (*integerTail, *property.Reason) {
	return formOf(n, "product of integers", integerTailOf)
}

// integerTailSignatures: the weights of the product as it wants them, everything else row-major.
func integerTailSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	t, why := fusedIntegerTail(n)
	if why != nil {
		return nil, why
	}
	op, _ := table.Lookup(t.head)
	head, why := op.Signatures(t.head)
	if why != nil {
		return nil, why
	}
	s := graph.UniformSignature(head[0].Name, n, rowMaj)
	for i, v := range n.Regions[0].Graph.Inputs {
		if v == t.head.Inputs[1] {
			s.Inputs[i] = head[0].Inputs[1]
		}
	}
	return []graph.Signature{s}, nil
}

func planIntegerTail(p *planner, n *graph.Node) error {
	t, why := fusedIntegerTail(n)
	if why != nil {
		return why
	}
	y, in := n.Outputs[0], fuse.Outers(n, t.head.Inputs)
	dst := p.Out(y)
	var act activation
	if t.act != nil {
		act, _ = activationOf(t.act)
	}
	scales, bias := fuse.Outer(n, t.scales), fuse.Outer(n, t.bias)
	if t.head.Is("ConvInteger") {
		c, err := p.convInteger(t.head, in, y)
		if err != nil {
			return err
		}
		f := p.scaledFloats(c.outputs(), scales, bias)
		p.emitConvSums(c, f.convFinish(p, c, dst, act), f.reads(), []place.Memory{dst})
		return nil
	}
	s, err := p.matmulInteger(in)
	if err != nil {
		return err
	}
	f := p.scaledFloats(s.n, scales, bias)
	p.emitSums(s, f.finish(p, dst, s.n, act), f.reads(), []place.Memory{dst})
	return nil
}

// scaledSums makes floats of sums: a factor and a bias for each column, padded to whole panels.
type scaledSums struct {
	factors, bias place.Memory // of a run
	fixed         [2][]float32 // the same, where they are constants
}

// vectors returns factors and bias of n columns from col on.
func (f *scaledSums) vectors(st *state, col, n int) (factors, bias []float32) {
	if f.fixed[0] != nil {
		return f.fixed[0][col:][:n], f.fixed[1][col:][:n]
	}
	return st.F32(f.factors)[col:][:n], st.F32(f.bias)[col:][:n]
}

// scaledFloats emits what makes vectors of scales and bias, which may be nil, for n columns.
func (p *planner) scaledFloats(n int, scales, bias *graph.Value) *scaledSums {
	width := paddedColumns(n)
	f := &scaledSums{factors: p.Temp(4 * width), bias: p.Temp(4 * width)}
	from, add := p.In(scales), p.In(bias)
	p.emit(step{serial: func(st *state) {
		repeatLast(st.F32(f.factors), st.F32(from))
		repeatLast(st.F32(f.bias), st.F32(add))
	}}, []place.Memory{from, add}, []place.Memory{f.factors, f.bias})
	return f
}

// repeatLast copies src to dst, repeats its last element behind it, and writes zeros where there is none.
func repeatLast(dst, src []float32) {
	n := copy(dst, src)
	rest := dst[n:]
	switch {
	case len(rest) == 0:
	case n == 0:
		clear(rest)
	default: // what is there is copied behind it, twice as much each time: whole vectors, in the place of an element at a time
		rest[0] = dst[n-1]
		for done := 1; done < len(rest); done *= 2 {
			copy(rest[done:], rest[:done])
		}
	}
}

func (f *scaledSums) reads() []place.Memory { return []place.Memory{f.factors, f.bias} }

// rowKernels are the kernels that make results of sums.
type rowKernels struct {
	integers quant.Kernels
	floats   vec.Kernels
}

// rows writes the floats of columns [col, col+cols) to rows ldd apart at dst, which may be the sums' memory, behind an activation.
func (f *scaledSums) rows(st *state, kernels *rowKernels, dst []float32, ldd int, x []int32, ld, rows, col, cols int, act *activation) {
	factors, bias := f.vectors(st, col, cols)
	kernels.integers.Scale(dst, ldd, quant.Sums{Rows: rows, Cols: cols, Sums: x, LD: ld, Factors: factors, Bias: bias})
	if act.some {
		kernels.floats.ApplyRows(act.op, dst, ldd, dst, ldd, rows, cols, act.params)
	}
}

// finish writes the floats to dst, a matrix of n columns.
func (f *scaledSums) finish(p *planner, dst place.Memory, n int, act activation) finish {
	kernels := &rowKernels{p.integers, p.kernels}
	return func(st *state, x []int32, ld, row, rows, col, cols int) {
		f.rows(st, kernels, st.F32(dst)[row*n+col:], n, x, ld, rows, col, cols, &act)
	}
}

// convFinish writes the floats to planes at dst.
func (f *scaledSums) convFinish(p *planner, c *integerConv, dst place.Memory, act activation) convFinish {
	kernels, keep := &rowKernels{p.integers, p.kernels}, p.keepConvSums(c, dst)
	return func(st *state, x []int32, ld, image, at, n, col, cols int) {
		f.rows(st, kernels, asFloats(x), ld, x, ld, n, col, roundUp(cols, quant.Panel), &act)
		keep(st, x, ld, image, at, n, col, cols)
	}
}

func init() {
	table.Register("DynamicQuantizeLinear", operator{Signatures: dynamicQuantizeSignatures, Plan: planDynamicQuantize})
	table.Register(operators.Pattern(integerTailName), operator{Signatures: integerTailSignatures, Plan: planIntegerTail})
}
