package cpu

import (
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Cast: row-major, by vector kernels between integers, bool, float32 and half precision, between float32 and float64, and plain loops between integers and float64. Models of half
// precision are computed in float32 (graph.SimplifyOptions.Rank), so that their casts stand at their inputs and outputs.

func castSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range []*graph.Value{n.Inputs[0], n.Outputs[0]} {
		switch v.Type.DType {
		case tensor.Float32, tensor.Float64, tensor.Bool, tensor.Float16, tensor.BFloat16:
		default:
			if !isWhole(v) {
				return nil, property.Because(property.DTypeReason, "no cast for %v", v.Type.DType)
			}
		}
	}
	from := n.Inputs[0].Type.DType
	if to := n.Outputs[0].Type.DType; from == tensor.Float64 && isHalf(to) {
		return nil, property.Because(property.DTypeReason, "%v would be rounded twice to be %v", n.Inputs[0], to)
	}
	return operators.RowMajor(n), nil
}

func isHalf(dt tensor.DType) bool { return dt == tensor.Float16 || dt == tensor.BFloat16 }

// castKinds are the kernels' names of types that are cast; integers and bool alone are to half precision.
var castKinds = map[tensor.DType]cast.Type{
	tensor.Int8: cast.Int8, tensor.Int16: cast.Int16, tensor.Int32: cast.Int32, tensor.Int64: cast.Int64,
	tensor.Uint8: cast.Uint8, tensor.Uint16: cast.Uint16, tensor.Uint32: cast.Uint32, tensor.Uint64: cast.Uint64,
	tensor.Float32: cast.Float32, tensor.Bool: cast.Bool, tensor.Float16: cast.Float16, tensor.BFloat16: cast.BFloat16,
}

// castNanos is the time of an element where there is a kernel.
const castNanos = 0.1

// sameBits reports whether a cast changes nothing in memory.
func sameBits(from, to tensor.DType) bool {
	whole := func(dt tensor.DType) bool { _, ok := castKinds[dt]; return ok && dt != tensor.Float32 && !isHalf(dt) }
	return from == to || whole(from) && whole(to) && to != tensor.Bool && from.Size() == to.Size()
}

func planCast(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	from, to := x.Type.DType, y.Type.DType
	source, known := castKinds[from]
	dest, ok := castKinds[to]
	if sameBits(from, to) {
		p.ViewOr(y, x, p.copyStep)
		return nil
	}
	switch {
	case from == tensor.Float32 && isHalf(to), isHalf(from) && ok:
		p.castHalf(n, dest)
		return nil
	case known && ok:
		set, sizeS, sizeD := p.target.Set, from.Size(), to.Size()
		elementBytes(p, p.In(x), sizeS, p.Out(y), sizeD, product(p.Dims[y.ID]), castNanos, func(d, s []byte) { cast.Elements(set, d, dest, s, source, len(d)/sizeD) })
		return nil
	}
	return casts[from](p, n)
}

// castHalf emits a cast between float32 and half precision, or from that to other types by way of float32, which holds all numbers of it.
func (p *planner) castHalf(n *graph.Node, dest cast.Type) {
	x, y, target := n.Inputs[0], n.Outputs[0], p.target
	from, to := x.Type.DType, y.Type.DType
	src, dst, count := p.In(x), p.Out(y), product(p.Dims[y.ID])
	switch {
	case to == tensor.Float32:
		elements(p, src, dst, count, castNanos, func(d []float32, s []uint16) { reorder.FromHalf(target, d, s, halves[from]) })
	case from == tensor.Float32:
		elements(p, src, dst, count, castNanos, func(d []uint16, s []float32) { reorder.ToHalf(target, d, s, halves[to]) })
	case isHalf(to):
		byFloats(p, src, 2, dst, 2, count, func(d []byte, between []float32, s []byte) {
			reorder.FromHalf(target, between, place.Elements[uint16](s), halves[from])
			reorder.ToHalf(target, place.Elements[uint16](d), between, halves[to])
		})
	default:
		size := to.Size()
		byFloats(p, src, 2, dst, size, count, func(d []byte, between []float32, s []byte) {
			reorder.FromHalf(target, between, place.Elements[uint16](s), halves[from])
			cast.Elements(target.Set, d, dest, floatBytes(between), cast.Float32, len(between))
		})
	}
}

func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// byFloats emits a function of parts that has memory for as many floats.
func byFloats(p *planner, src place.Memory, sizeS int, dst place.Memory, sizeD, count int, fn func(dst []byte, between []float32, src []byte)) {
	elementBytes(p, src, sizeS, dst, sizeD, count, 2*castNanos, func(d, s []byte) {
		var between [512]float32
		for n := len(d) / sizeD; n > 0; {
			part := between[:min(n, len(between))]
			fn(d[:len(part)*sizeD], part, s[:len(part)*sizeS])
			d, s, n = d[len(part)*sizeD:], s[len(part)*sizeS:], n-len(part)
		}
	})
}

// casts plan casts in plain loops, by the type that is cast. Bool is stored as 0 or 1.
var casts = map[tensor.DType]func(p *planner, n *graph.Node) error{
	tensor.Float32: fromSingle, tensor.Float64: fromDouble,
	tensor.Int8: fromNumber[int8], tensor.Int16: fromNumber[int16], tensor.Int32: fromNumber[int32], tensor.Int64: fromNumber[int64],
	tensor.Uint8: fromNumber[uint8], tensor.Uint16: fromNumber[uint16], tensor.Uint32: fromNumber[uint32], tensor.Uint64: fromNumber[uint64],
	tensor.Bool: fromNumber[uint8], tensor.Float16: fromHalf(tensor.Float16ToFloat32), tensor.BFloat16: fromHalf(tensor.BFloat16ToFloat32),
}

// fromSingle casts float32 to float64.
func fromSingle(p *planner, n *graph.Node) error {
	set := p.target.Set
	return elementsOf(p, n, func(d []float64, s []float32) { cast.Doubles(set, d, s) })
}

// fromNumber casts integers to float64.
func fromNumber[S integer](p *planner, n *graph.Node) error {
	return elementsOf(p, n, convertRow[float64, S])
}

// fromHalf returns what plans casts of half precision, of which decode makes a number, to float64.
func fromHalf(decode func(uint16) float32) func(p *planner, n *graph.Node) error {
	return func(p *planner, n *graph.Node) error {
		return elementwise1(p, n, func(h uint16) float64 { return float64(decode(h)) })
	}
}

// fromDouble casts float64.
func fromDouble(p *planner, n *graph.Node) error {
	switch n.Outputs[0].Type.DType {
	case tensor.Float32:
		set := p.target.Set
		return elementsOf(p, n, func(d []float32, s []float64) { cast.Singles(set, d, s) })
	case tensor.Bool:
		return elementwise1(p, n, func(s float64) bool { return s != 0 })
	case tensor.Int8:
		return elementwise1(p, n, func(s float64) int8 { return int8(cast.Whole(s)) })
	case tensor.Int16:
		return elementwise1(p, n, func(s float64) int16 { return int16(cast.Whole(s)) })
	case tensor.Int32:
		return elementwise1(p, n, func(s float64) int32 { return int32(cast.Whole(s)) })
	case tensor.Int64:
		return elementwise1(p, n, cast.Whole[float64])
	case tensor.Uint16:
		return elementwise1(p, n, func(s float64) uint16 { return uint16(cast.Whole(s)) })
	case tensor.Uint32:
		return elementwise1(p, n, func(s float64) uint32 { return uint32(cast.Whole(s)) })
	case tensor.Uint64:
		return elementwise1(p, n, cast.Bits[float64])
	}
	return elementwise1(p, n, func(s float64) uint8 { return uint8(cast.Whole(s)) })
}

// halves are the kernels' names of the types of half precision.
var halves = map[tensor.DType]reorder.Element{tensor.Float16: reorder.Float16, tensor.BFloat16: reorder.BFloat16}

func init() {
	table.Register("Cast", operator{Signatures: castSignatures, Settle: settleCast, Plan: planCast, Strided: anyRows})
}

// settleCast makes casts that change nothing views.
func settleCast(p *planner, n *graph.Node) {
	if sameBits(n.Inputs[0].Type.DType, n.Outputs[0].Type.DType) {
		operators.View(p, n)
	}
}
