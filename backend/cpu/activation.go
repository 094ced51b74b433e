package cpu

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// activationOf returns the function of a unary float node, whose limits are constants.
func activationOf(n *graph.Node) (activation, bool) {
	simple := func(op vec.Op) (activation, bool) { return activation{some: true, op: op}, true }
	with := func(op vec.Op, p vec.Params) (activation, bool) {
		return activation{some: true, op: op, params: p}, true
	}
	if n.Op.Domain != "" {
		return activation{}, false
	}
	switch n.Op.Name {
	case "Relu":
		return activation{some: true, clip: true, lo: 0, hi: inf, op: vec.Relu}, true
	case "Clip":
		lo, hi := -inf, inf
		if n.Op.Since < 11 {
			lo, hi = n.Float("min", -math.MaxFloat32), n.Float("max", math.MaxFloat32)
		} else {
			for i, at := range []*float32{&lo, &hi} {
				v := n.Input(i + 1)
				if v == nil {
					continue
				}
				x, ok := fuse.Scalar(v)
				if !ok {
					return activation{}, false
				}
				*at = x
			}
		}
		return activation{some: true, clip: lo <= hi, lo: lo, hi: hi, op: vec.Clip, params: vec.Params{A: lo, B: hi}}, true
	case "ThresholdedRelu":
		return with(vec.Threshold, vec.Params{A: n.Float("alpha", 1)})
	case "Shrink":
		return with(vec.Shrink, vec.Params{A: n.Float("lambd", 0.5), B: n.Float("bias", 0)})
	case "LeakyRelu":
		return with(vec.LeakyRelu, vec.Params{A: n.Float("alpha", 0.01)})
	case "Elu":
		return with(vec.Elu, vec.EluParams(n.Float("alpha", 1)))
	case "Selu":
		return with(vec.Elu, vec.SeluParams(n.Float("alpha", 1.67326319217681884765625), n.Float("gamma", 1.05070102214813232421875)))
	case "Celu":
		return with(vec.Elu, vec.CeluParams(n.Float("alpha", 1)))
	case "HardSigmoid":
		return with(vec.HardSigmoid, vec.Params{A: n.Float("alpha", 0.2), B: n.Float("beta", 0.5)})
	case "Swish":
		if alpha := n.Float("alpha", 1); alpha != 1 {
			return with(vec.Swish, vec.Params{A: alpha})
		}
		return simple(vec.Silu)
	case "Gelu":
		if n.Str("approximate", "none") == "tanh" {
			return simple(vec.GeluTanh)
		}
		return simple(vec.GeluErf)
	}
	op, ok := unaryOps[n.Op.Name]
	return activation{some: ok, op: op}, ok
}

var unaryOps = map[string]vec.Op{
	"Exp": vec.Exp, "Log": vec.Log, "Tanh": vec.Tanh, "Sigmoid": vec.Sigmoid, "Erf": vec.Erf, "Sqrt": vec.Sqrt,
	"Reciprocal": vec.Reciprocal, "Abs": vec.Abs, "Neg": vec.Neg, "HardSwish": vec.HardSwish, "Softplus": vec.Softplus,
	"Mish": vec.Mish, "Floor": vec.Floor, "Ceil": vec.Ceil, "Round": vec.Round, "Sin": vec.Sin, "Cos": vec.Cos, "Tan": vec.Tan,
	"Asin": vec.Asin, "Acos": vec.Acos, "Atan": vec.Atan, "Sinh": vec.Sinh, "Cosh": vec.Cosh, "Softsign": vec.Softsign, "Sign": vec.Sign,
}

// keepsZero reports whether the function maps 0 to 0, so that padding lanes stay zero.
func (a activation) keepsZero() bool {
	in, out := []float32{0}, []float32{0}
	vec.Kernels{}.Apply(a.op, out, in, a.params)
	return out[0] == 0
}

func unarySignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Input(0)
	if !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	if _, ok := activationOf(n); !ok {
		return nil, property.Because(property.Attribute, "limits of %v must be constant", n)
	}
	return followSignatures(n, 1), nil
}

// followSignatures has the first few inputs and all outputs in one format, blocked or row-major, and the rest row-major.
func followSignatures(n *graph.Node, follow int) []graph.Signature {
	f, ok := blockedFormat(n.Outputs[0])
	for _, v := range n.Inputs[:follow] {
		of, has := blockedFormat(v)
		ok = ok && has && of == f
	}
	if !ok {
		return operators.RowMajor(n)
	}
	return operators.Follow(n, follow, f)
}

func planUnary(p *planner, n *graph.Node) error {
	a, _ := activationOf(n)
	x, y := n.Inputs[0], n.Outputs[0]
	src, dst := p.In(x), p.Out(y)
	p.unary(a, src, dst, p.stored(y), p.usedLanes(y))
	return nil
}

// usedLanes returns how many lanes of the last channel block of a blocked value, which has its place, hold channels, and the
// elements of one block; lanes is 0 where nothing is padded.
func (p *planner) usedLanes(v *graph.Value) padding {
	if !inBlocks(v.Format) {
		return padding{}
	}
	d := p.Dims[v.ID]
	if v.Format == volume {
		d = slices2D(d)
	}
	if d[1]%16 == 0 {
		return padding{}
	}
	q := padding{lanes: d[1] % 16, blocks: (d[1] + 15) / 16, hw: d[2] * d[3], images: d[0]}
	q.image = q.blocks * q.hw * 16
	if m := p.In(v); m.Pitch != 0 {
		q.image = m.Pitch / 4
	}
	return q
}

// padding says where the padding of a blocked tensor is.
type padding struct{ lanes, blocks, hw, images, image int }

// clear sets the padding lanes of dst to zero.
func (q padding) clear(dst []float32) {
	if q.lanes == 0 {
		return
	}
	for i := range q.images {
		at := i*q.image + (q.blocks-1)*q.hw*16
		conv.ClearLanes(dst[at:at+q.hw*16], q.lanes)
	}
}

// elementsPerChunk is how many elements of an element-wise operator make a chunk.
const elementsPerChunk = 4096

// elements emits a function of parts of src to the same parts of dst, both of so many elements; nanos is its time per
// element.
func elements[S, D tensor.Element](p *planner, src, dst place.Memory, count int, nanos float64, fn func(dst []D, src []S)) {
	var unitS S
	var unitD D
	sizeS, sizeD := int(unsafe.Sizeof(unitS)), int(unsafe.Sizeof(unitD))
	elementBytes(p, src, sizeS, dst, sizeD, count, nanos, func(d, s []byte) { fn(place.Elements[D](d), place.Elements[S](s)) })
}

// elementBytes is elements for those of these sizes in bytes.
func elementBytes(p *planner, src place.Memory, sizeS int, dst place.Memory, sizeD, count int, nanos float64, fn func(dst, src []byte)) {
	elementBytesWith(p, 0, src, sizeS, dst, sizeD, count, nanos, func(_ []float32, d, s []byte) { fn(d, s) })
}

// elementBytesWith is elementBytes of a function that has memory for so many floats.
func elementBytesWith(p *planner, floats int, src place.Memory, sizeS int, dst place.Memory, sizeD, count int, nanos float64, fn func(room []float32, dst, src []byte)) {
	near := scratch{at: place.Nowhere}
	if floats > 0 {
		near = p.scratch(4 * floats)
	}
	room := func(st *state, worker int) []float32 {
		if floats == 0 {
			return nil
		}
		return near.floats(st, worker)[:floats]
	}
	if cols := rowOf(src, sizeS, dst, sizeD); cols > 0 && cols <= elementsPerChunk {
		from, _ := src.Runs(cols * sizeS)
		to, _ := dst.Runs(cols * sizeD)
		p.emit(step{chunks: count / cols, grain: grainFor(float64(cols)*nanos + 5), body: func(st *state, worker, lo, hi int) {
			d, s, free := st.Bytes(dst), st.Bytes(src), room(st, worker)
			for lo < hi {
				at, n := to.At(lo, hi-lo)
				by, n := from.At(lo, n)
				for i := range n {
					fn(free, d[at+i*to.Near:][:cols*sizeD], s[by+i*from.Near:][:cols*sizeS])
				}
				lo += n
			}
		}}, []place.Memory{src}, []place.Memory{dst, near.at})
		return
	}
	if src.Pitch == 0 && dst.Pitch == 0 && floats == 0 {
		p.emitFlat(&flat{count: count, unit: 1, nanos: nanos, same: []flatPlace{{src, sizeS}, {dst, sizeD}}, body: func(_ *state, _ int, at [3][]byte, _, _ int, _ bool) {
			fn(nil, at[1], at[0])
		}}, []place.Memory{src}, []place.Memory{dst})
		return
	}
	p.emit(step{chunks: ceilDiv(count, elementsPerChunk), grain: grainFor(elementsPerChunk * nanos), body: func(st *state, worker, lo, hi int) {
		d, s, free := st.Bytes(dst), st.Bytes(src), room(st, worker)
		for at, end := lo*elementsPerChunk, min(hi*elementsPerChunk, count); at < end; {
			to, n := dst.Piece(at*sizeD, (end-at)*sizeD)
			from, n := src.Piece(at*sizeS, n/sizeD*sizeS)
			n /= sizeS
			fn(free, d[to:][:n*sizeD], s[from:][:n*sizeS])
			at += n
		}
	}}, []place.Memory{src}, []place.Memory{dst, near.at})
}

// rowOf returns how many elements, of these sizes in bytes, are contiguous on both sides, 0 where all of them are.
func rowOf(src place.Memory, sizeS int, dst place.Memory, sizeD int) int {
	return commonDivisor(src.Row/sizeS, dst.Row/sizeD)
}

// elementsOf emits an operator of one operand by a loop over parts of it.
func elementsOf[S, D tensor.Element](p *planner, n *graph.Node, fn func(dst []D, src []S)) error {
	x, y := n.Inputs[0], n.Outputs[0]
	elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 0.6, fn)
	return nil
}

// stored returns how many elements a float32 value has, with its padding.
func (p *planner) stored(v *graph.Value) int { return p.Bytes(v) / 4 }

// unary emits an element-wise function of so many elements.
func (p *planner) unary(a activation, src, dst place.Memory, count int, pad padding) {
	nanos, kernels := unaryNanos(a.op), p.into(dst)
	if cols := rowOf(src, 4, dst, 4); cols > 0 && cols <= elementsPerChunk {
		p.rows(src, dst, count/cols, float64(cols)*nanos, func(d []float32, ldd int, s []float32, lds, rows int) {
			kernels.ApplyRows(a.op, d, ldd, s, lds, rows, cols, a.params)
		}, cols, cols)
	} else if src.Pitch == 0 && dst.Pitch == 0 {
		cached, past := p.kernels, p.kernels.Past()
		p.emitFlat(&flat{count: count, unit: 1, nanos: nanos, same: []flatPlace{{src, 4}, {dst, 4}}, body: func(_ *state, _ int, at [3][]byte, _, _ int, far bool) {
			kernels := cached
			if far {
				kernels = past
			}
			kernels.Apply(a.op, place.Elements[float32](at[1]), place.Elements[float32](at[0]), a.params)
		}}, []place.Memory{src}, []place.Memory{dst})
	} else {
		elements(p, src, dst, count, nanos, func(d, s []float32) { kernels.Apply(a.op, d, s, a.params) })
	}
	if !a.keepsZero() {
		p.clearLanes(pad, dst)
	}
}

// clearLanes emits the zeroing of padding lanes.
func (p *planner) clearLanes(pad padding, dst place.Memory) {
	if pad.lanes > 0 {
		p.emit(step{serial: func(st *state) { pad.clear(st.F32(dst)) }}, []place.Memory{dst}, []place.Memory{dst})
	}
}

// unaryNanos is a rough time per element.
func unaryNanos(op vec.Op) float64 {
	switch op {
	case vec.Relu, vec.Clip, vec.Abs, vec.Neg, vec.Square, vec.HardSwish, vec.HardSigmoid, vec.LeakyRelu, vec.Sign, vec.Threshold, vec.Shrink, vec.Softsign, vec.Floor, vec.Ceil, vec.Round:
		return 0.1
	}
	return 0.4
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func init() {
	for name := range unaryOps {
		table.Register(name, orInteger(operator{Signatures: unarySignatures, Settle: overFirst, Plan: planUnary, Strided: anyRows}))
	}
	for _, name := range []string{"Relu", "Clip", "Shrink"} {
		table.Register(name, orInteger(operator{Signatures: unarySignatures, Settle: overFirst, Plan: planUnary, Strided: anyRows}))
	}
	for _, name := range []string{"LeakyRelu", "ThresholdedRelu", "Elu", "Selu", "Celu", "HardSigmoid", "Swish", "Gelu"} {
		table.Register(name, operator{Signatures: unarySignatures, Settle: overFirst, Plan: planUnary, Strided: anyRows})
	}
}
