package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/property"
)

// Comparisons, boolean operators, Where, Cast and Pow: row-major, by plain loops except where floats are many.

type ordered interface {
	~float32 | ~int32 | ~int64 | ~uint8
}

var comparisons = []string{"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}

func compareSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	a := n.Input(0)
	switch a.Type.DType {
	case tensor.Float32, tensor.Int32, tensor.Int64:
		return plainSignature(n), nil
	case tensor.Bool:
		if n.Op.Name == "Equal" {
			return plainSignature(n), nil
		}
	}
	return nil, wrongDType(a)
}

func planCompare(p *planner, n *graph.Node) error {
	switch n.Inputs[0].Type.DType {
	case tensor.Float32:
		return elementwise2(p, n, compareFunc[float32](n.Op.Name))
	case tensor.Int32:
		return elementwise2(p, n, compareFunc[int32](n.Op.Name))
	case tensor.Int64:
		return elementwise2(p, n, compareFunc[int64](n.Op.Name))
	}
	return elementwise2(p, n, compareFunc[uint8](n.Op.Name))
}

func compareFunc[T ordered](name string) func(a, b T) bool {
	switch name {
	case "Equal":
		return func(a, b T) bool { return a == b }
	case "Greater":
		return func(a, b T) bool { return a > b }
	case "GreaterOrEqual":
		return func(a, b T) bool { return a >= b }
	case "Less":
		return func(a, b T) bool { return a < b }
	}
	return func(a, b T) bool { return a <= b }
}

func boolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return plainSignature(n), nil
}

func planBool(p *planner, n *graph.Node) error {
	switch n.Op.Name {
	case "And":
		return elementwise2(p, n, func(a, b bool) bool { return a && b })
	case "Or":
		return elementwise2(p, n, func(a, b bool) bool { return a || b })
	}
	return elementwise2(p, n, func(a, b bool) bool { return a != b })
}

func planNot(p *planner, n *graph.Node) error {
	src, dst := p.in(n.Inputs[0]), p.out(n.Outputs[0])
	p.emit(step{chunks: ceilDiv(dst.size, elementsPerChunk), grain: 4, body: func(st *state, _, lo, hi int) {
		d, s := of[bool](st, dst), of[bool](st, src)
		for i := lo * elementsPerChunk; i < min(hi*elementsPerChunk, len(d)); i++ {
			d[i] = !s[i]
		}
	}}, []memory{src}, []memory{dst})
	return nil
}

func whereSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	switch n.Inputs[1].Type.DType.Size() {
	case 1, 4, 8:
		return plainSignature(n), nil
	}
	return nil, wrongDType(n.Inputs[1])
}

func planWhere(p *planner, n *graph.Node) error {
	switch n.Inputs[1].Type.DType.Size() {
	case 1:
		return where[uint8](p, n)
	case 4:
		return where[uint32](p, n)
	}
	return where[uint64](p, n)
}

func where[T tensor.Element](p *planner, n *graph.Node) error {
	c, x, y, r := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Outputs[0]
	b := newBroadcast(p.dims[r.ID], p.dims[c.ID], p.dims[x.ID], p.dims[y.ID])
	mc, mx, my, dst := p.in(c), p.in(x), p.in(y), p.out(r)
	if b.total == 0 {
		return nil
	}
	p.emit(step{chunks: b.rows, grain: grainFor(float64(b.inner) + 10), body: func(st *state, _, lo, hi int) {
		d, cond, s, t := of[T](st, dst), of[bool](st, mc), of[T](st, mx), of[T](st, my)
		for row := lo; row < hi; row++ {
			oc, ox, oy := b.offset(0, row), b.offset(1, row), b.offset(2, row)
			out := d[row*b.inner : (row+1)*b.inner]
			for i := range out {
				if cond[oc] {
					out[i] = s[ox]
				} else {
					out[i] = t[oy]
				}
				oc += b.step[0]
				ox += b.step[1]
				oy += b.step[2]
			}
		}
	}}, []memory{mc, mx, my}, []memory{dst})
	return nil
}

func castSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range []*graph.Value{n.Inputs[0], n.Outputs[0]} {
		switch v.Type.DType {
		case tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Bool, tensor.Uint8, tensor.Int8:
		default:
			return nil, property.Because(property.DTypeReason, "no cast for %v", v.Type.DType)
		}
	}
	return plainSignature(n), nil
}

func planCast(p *planner, n *graph.Node) error {
	switch n.Inputs[0].Type.DType {
	case tensor.Float32:
		return castFrom[float32](p, n)
	case tensor.Float64:
		return castFrom[float64](p, n)
	case tensor.Int32:
		return castFrom[int32](p, n)
	case tensor.Int64:
		return castFrom[int64](p, n)
	case tensor.Int8:
		return castFrom[int8](p, n)
	}
	return castFrom[uint8](p, n) // Bool is stored as 0 or 1
}

type number interface {
	~float32 | ~float64 | ~int8 | ~int32 | ~int64 | ~uint8
}

func castFrom[S number](p *planner, n *graph.Node) error {
	switch n.Outputs[0].Type.DType {
	case tensor.Float32:
		return castTo(p, n, func(s S) float32 { return float32(s) })
	case tensor.Float64:
		return castTo(p, n, func(s S) float64 { return float64(s) })
	case tensor.Int32:
		return castTo(p, n, func(s S) int32 { return int32(int64(s)) })
	case tensor.Int64:
		return castTo(p, n, func(s S) int64 { return int64(s) })
	case tensor.Int8:
		return castTo(p, n, func(s S) int8 { return int8(int64(s)) })
	case tensor.Bool:
		return castTo(p, n, func(s S) uint8 {
			if s != 0 {
				return 1
			}
			return 0
		})
	}
	return castTo(p, n, func(s S) uint8 { return uint8(int64(s)) })
}

func castTo[S, D number](p *planner, n *graph.Node, fn func(S) D) error {
	src, dst := p.in(n.Inputs[0]), p.out(n.Outputs[0])
	count := product(p.dims[n.Outputs[0].ID])
	p.emit(step{chunks: ceilDiv(count, elementsPerChunk), grain: 2, body: func(st *state, _, lo, hi int) {
		d, s := of[D](st, dst), of[S](st, src)
		for i := lo * elementsPerChunk; i < min(hi*elementsPerChunk, count); i++ {
			d[i] = fn(s[i])
		}
	}}, []memory{src}, []memory{dst})
	return nil
}

func powSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !isF32(n.Inputs...) {
		return nil, wrongDType(n.Inputs[0])
	}
	return plainSignature(n), nil
}

func planPow(p *planner, n *graph.Node) error {
	y, ok := scalarOf(n.Inputs[1])
	if !ok || !sameDims(p.dims[n.Inputs[0].ID], p.dims[n.Outputs[0].ID]) {
		return elementwise2(p, n, func(a, b float32) float32 { return float32(math.Pow(float64(a), float64(b))) })
	}
	p.inPlace(n.Outputs[0], n.Inputs[0])
	src, dst := p.in(n.Inputs[0]), p.out(n.Outputs[0])
	count := dst.size / 4
	p.emit(step{chunks: ceilDiv(count, elementsPerChunk), grain: grainFor(500), body: func(st *state, _, lo, hi int) {
		d, s := st.f32(dst), st.f32(src)
		from, to := lo*elementsPerChunk, min(hi*elementsPerChunk, count)
		vec.Pow(d[from:to], s[from:to], y)
	}}, []memory{src}, []memory{dst})
	return nil
}

func init() {
	for _, name := range comparisons {
		register(name, operator{compareSignatures, planCompare})
	}
	for _, name := range []string{"And", "Or", "Xor"} {
		register(name, operator{boolSignatures, planBool})
	}
	register("Not", operator{boolSignatures, planNot})
	register("Where", operator{whereSignatures, planWhere})
	register("Cast", operator{castSignatures, planCast})
	register("Pow", operator{powSignatures, planPow})
}
