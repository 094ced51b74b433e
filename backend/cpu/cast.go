package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Cast: row-major, by vector kernels, and by tables to and from floats of 8 bits. Models of half precision are computed in float32 (graph.SimplifyOptions.Rank), so that their
// casts stand at their inputs and outputs.

func castSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range []*graph.Value{n.Inputs[0], n.Outputs[0]} {
		switch v.Type.DType {
		case tensor.Float32, tensor.Float64, tensor.Bool, tensor.Float16, tensor.BFloat16:
		default:
			if !isWhole(v) && !isFloat8(v.Type.DType) {
				return nil, property.Because(property.DTypeReason, "no cast for %v", v.Type.DType)
			}
		}
	}
	if from, to := n.Inputs[0].Type.DType, n.Outputs[0].Type.DType; from == tensor.Float64 && isFloat8(to) {
		return nil, property.Because(property.DTypeReason, "%v would be rounded twice to be %v", n.Inputs[0], to)
	}
	return operators.RowMajor(n), nil
}

func isHalf(dt tensor.DType) bool { return dt == tensor.Float16 || dt == tensor.BFloat16 }

// castKinds are the kernels' names of types that are cast; integers and bool alone are to half precision.
var castKinds = map[tensor.DType]cast.Type{
	tensor.Int8: cast.Int8, tensor.Int16: cast.Int16, tensor.Int32: cast.Int32, tensor.Int64: cast.Int64,
	tensor.Uint8: cast.Uint8, tensor.Uint16: cast.Uint16, tensor.Uint32: cast.Uint32, tensor.Uint64: cast.Uint64,
	tensor.Float32: cast.Float32, tensor.Float64: cast.Float64, tensor.Bool: cast.Bool, tensor.Float16: cast.Float16, tensor.BFloat16: cast.BFloat16,
}

// castNanos is the time of an element where there is a kernel.
const castNanos = 0.1

// sameBits reports whether a cast changes nothing in memory.
func sameBits(from, to tensor.DType) bool {
	whole := func(dt tensor.DType) bool { _, ok := castKinds[dt]; return ok && !dt.IsFloat() }
	return from == to || whole(from) && whole(to) && to != tensor.Bool && from.Size() == to.Size()
}

func planCast(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	from, to := x.Type.DType, y.Type.DType
	switch source, dest := castKinds[from], castKinds[to]; {
	case sameBits(from, to):
		p.ViewOr(y, x, p.copyStep)
	case isFloat8(to):
		return p.castToFloat8(n)
	case isFloat8(from):
		return p.castFromFloat8(n)
	case from.IsFloat() && isHalf(to), isHalf(from):
		p.castHalf(n, dest)
	default:
		set, sizeS, sizeD := p.target.Set, from.Size(), to.Size()
		elementBytes(p, p.In(x), sizeS, p.Out(y), sizeD, product(p.Dims[y.ID]), castNanos, func(d, s []byte) { cast.Elements(set, d, dest, s, source, len(d)/sizeD) })
	}
	return nil
}

// castHalf emits a cast between float32 and half precision, or from that to other types by way of float32, which holds all numbers of it, or to it from float64 by way of that
// too.
func (p *planner) castHalf(n *graph.Node, dest cast.Type) {
	x, y, target := n.Inputs[0], n.Outputs[0], p.target
	from, to := x.Type.DType, y.Type.DType
	src, dst, count := p.In(x), p.Out(y), product(p.Dims[y.ID])
	switch {
	case to == tensor.Float32:
		elements(p, src, dst, count, castNanos, func(d []float32, s []uint16) { reorder.FromHalf(target, d, s, halves[from]) })
	case from == tensor.Float32:
		elements(p, src, dst, count, castNanos, func(d []uint16, s []float32) { reorder.ToHalf(target, d, s, halves[to]) })
	case from == tensor.Float64:
		byFloats(p, src, 8, dst, 2, count, func(d []byte, between []float32, s []byte) {
			cast.Oddly(target.Set, between, place.Elements[float64](s))
			reorder.ToHalf(target, place.Elements[uint16](d), between, halves[to])
		})
	case isHalf(to):
		byFloats(p, src, 2, dst, 2, count, func(d []byte, between []float32, s []byte) {
			reorder.FromHalf(target, between, place.Elements[uint16](s), halves[from])
			reorder.ToHalf(target, place.Elements[uint16](d), between, halves[to])
		})
	default:
		size := to.Size()
		byFloats(p, src, 2, dst, size, count, func(d []byte, between []float32, s []byte) {
			reorder.FromHalf(target, between, place.Elements[uint16](s), halves[from])
			cast.Elements(target.Set, d, dest, asBytes(between), cast.Float32, len(between))
		})
	}
}

// byFloats emits a function of parts that has memory for as many floats.
func byFloats(p *planner, src place.Memory, sizeS int, dst place.Memory, sizeD, count int, fn func(dst []byte, between []float32, src []byte)) {
	const some = 1024
	elementBytesWith(p, some, src, sizeS, dst, sizeD, count, 2*castNanos, func(between []float32, d, s []byte) {
		for n := len(d) / sizeD; n > 0; {
			part := between[:min(n, len(between))]
			fn(d[:len(part)*sizeD], part, s[:len(part)*sizeS])
			d, s, n = d[len(part)*sizeD:], s[len(part)*sizeS:], n-len(part)
		}
	})
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
