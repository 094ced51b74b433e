package cpu

import (
	"math"
	"math/bits"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Cast: row-major, by vector kernels between float32 and half precision and plain loops else. Models of half precision are
// computed in float32 (graph.SimplifyOptions.Rank), so that the former stand at their inputs and outputs.

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
	if to := n.Outputs[0].Type.DType; (from == tensor.Float64 || from == tensor.Uint64) && isHalf(to) {
		return nil, property.Because(property.DTypeReason, "%v would be rounded twice to be %v", n.Inputs[0], to)
	}
	return operators.RowMajor(n), nil
}

func isHalf(dt tensor.DType) bool { return dt == tensor.Float16 || dt == tensor.BFloat16 }

func planCast(p *planner, n *graph.Node) error {
	if from := n.Inputs[0].Type.DType; isHalf(from) {
		return castHalf(p, n, halves[from])
	}
	switch n.Inputs[0].Type.DType {
	case tensor.Float32:
		return castFrom(p, n, wholeOf[float32])
	case tensor.Float64:
		return castFrom(p, n, wholeOf[float64])
	case tensor.Int32:
		return castFrom(p, n, func(x int32) int64 { return int64(x) })
	case tensor.Int64:
		return castFrom(p, n, func(x int64) int64 { return x })
	case tensor.Int8:
		return castFrom(p, n, func(x int8) int64 { return int64(x) })
	case tensor.Int16:
		return castFrom(p, n, func(x int16) int64 { return int64(x) })
	case tensor.Uint16:
		return castFrom(p, n, func(x uint16) int64 { return int64(x) })
	case tensor.Uint32:
		return castFrom(p, n, func(x uint32) int64 { return int64(x) })
	case tensor.Uint64:
		return castFrom(p, n, func(x uint64) int64 { return int64(x) })
	}
	return castFrom(p, n, func(x uint8) int64 { return int64(x) }) // Bool is stored as 0 or 1
}

// wholeOf truncates: NaN becomes 0, and what int64 cannot hold its nearest end, as tensor.Convert says. Go leaves both to
// the processor.
func wholeOf[F float32 | float64](x F) int64 {
	switch {
	case x != x:
		return 0
	case x >= 1<<63:
		return math.MaxInt64
	case x < -1<<63:
		return math.MinInt64
	}
	return int64(x)
}

// bitsOf is wholeOf for uint64, in its bits: what only that can hold it does, and negative numbers wrap around as those of int64 do.
func bitsOf[F float32 | float64](x F) uint64 {
	switch {
	case x >= 1<<64:
		return math.MaxUint64
	case x >= 1<<63:
		return uint64(x)
	}
	return uint64(wholeOf(x))
}

type number interface {
	float32 | float64 | integer
}

func castFrom[S number](p *planner, n *graph.Node, whole func(S) int64) error {
	switch n.Outputs[0].Type.DType {
	case tensor.Float32:
		return elementwise1(p, n, func(s S) float32 { return float32(s) })
	case tensor.Float64:
		return elementwise1(p, n, func(s S) float64 { return float64(s) })
	case tensor.Int32:
		return elementwise1(p, n, func(s S) int32 { return int32(whole(s)) })
	case tensor.Int64:
		return elementwise1(p, n, whole)
	case tensor.Int8:
		return elementwise1(p, n, func(s S) int8 { return int8(whole(s)) })
	case tensor.Bool:
		return elementwise1(p, n, func(s S) bool { return s != 0 })
	case tensor.Float16, tensor.BFloat16:
		return encoded(p, n, whole)
	case tensor.Int16:
		return elementwise1(p, n, func(s S) int16 { return int16(whole(s)) })
	case tensor.Uint16:
		return elementwise1(p, n, func(s S) uint16 { return uint16(whole(s)) })
	case tensor.Uint32:
		return elementwise1(p, n, func(s S) uint32 { return uint32(whole(s)) })
	case tensor.Uint64:
		if n.Inputs[0].Type.DType.IsFloat() {
			return elementwise1(p, n, func(s S) uint64 { return bitsOf(float64(s)) })
		}
		return elementwise1(p, n, func(s S) uint64 { return uint64(whole(s)) })
	}
	return elementwise1(p, n, func(s S) uint8 { return uint8(whole(s)) })
}

// halves are the kernels' names of the types of half precision.
var halves = map[tensor.DType]reorder.Element{tensor.Float16: reorder.Float16, tensor.BFloat16: reorder.BFloat16}

// decode returns the number that an element of half precision is.
func decode(h uint16, e reorder.Element) float32 {
	if e == reorder.Float16 {
		return tensor.Float16ToFloat32(h)
	}
	return tensor.BFloat16ToFloat32(h)
}

// castHalf casts from half precision.
func castHalf(p *planner, n *graph.Node, e reorder.Element) error {
	x, y := n.Inputs[0], n.Outputs[0]
	whole := func(h uint16) int64 { return wholeOf(decode(h, e)) }
	switch y.Type.DType {
	case x.Type.DType:
		p.ViewOr(y, x, p.copyStep)
		return nil
	case tensor.Float32:
		target := p.target
		elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 0.1, func(d []float32, s []uint16) { reorder.FromHalf(target, d, s, e) })
		return nil
	case tensor.Float64:
		return elementwise1(p, n, func(h uint16) float64 { return float64(decode(h, e)) })
	case tensor.Float16:
		return elementwise1(p, n, func(h uint16) uint16 { return tensor.Float32ToFloat16(decode(h, e)) })
	case tensor.BFloat16:
		return elementwise1(p, n, func(h uint16) uint16 { return tensor.Float32ToBFloat16(decode(h, e)) })
	case tensor.Int32:
		return elementwise1(p, n, func(h uint16) int32 { return int32(whole(h)) })
	case tensor.Int64:
		return elementwise1(p, n, whole)
	case tensor.Int8:
		return elementwise1(p, n, func(h uint16) int8 { return int8(whole(h)) })
	case tensor.Bool:
		return elementwise1(p, n, func(h uint16) bool { return decode(h, e) != 0 })
	case tensor.Int16:
		return elementwise1(p, n, func(h uint16) int16 { return int16(whole(h)) })
	case tensor.Uint16:
		return elementwise1(p, n, func(h uint16) uint16 { return uint16(whole(h)) })
	case tensor.Uint32:
		return elementwise1(p, n, func(h uint16) uint32 { return uint32(whole(h)) })
	case tensor.Uint64:
		return elementwise1(p, n, func(h uint16) uint64 { return bitsOf(decode(h, e)) })
	}
	return elementwise1(p, n, func(h uint16) uint8 { return uint8(whole(h)) })
}

// encoded casts float32, or integers, to half precision.
func encoded[S number](p *planner, n *graph.Node, whole func(S) int64) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if e := halves[y.Type.DType]; x.Type.DType == tensor.Float32 {
		target := p.target
		elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 0.1, func(d []uint16, s []float32) { reorder.ToHalf(target, d, s, e) })
		return nil
	}
	if y.Type.DType == tensor.Float16 {
		return elementwise1(p, n, func(s S) uint16 { return tensor.Float32ToFloat16(sticky(whole(s))) })
	}
	return elementwise1(p, n, func(s S) uint16 { return tensor.Float32ToBFloat16(sticky(whole(s))) })
}

// sticky returns a float32 from which an integer rounds to half precision as it would itself: what is cut off behind the
// 24 digits of float32 shows in the last of them.
func sticky(x int64) float32 {
	sign, u := float32(1), uint64(x)
	if x < 0 {
		sign, u = -1, -u
	}
	drop := max(bits.Len64(u)-24, 0)
	kept := u >> drop
	if kept<<drop != u {
		kept |= 1
	}
	return sign * float32(kept) * float32(uint64(1)<<drop)
}

func init() {
	table.Register("Cast", operator{Signatures: castSignatures, Settle: settleCast, Plan: planCast, Strided: anyRows})
}

// settleCast makes casts of half precision to itself views.
func settleCast(p *planner, n *graph.Node) {
	if from := n.Inputs[0].Type.DType; isHalf(from) && from == n.Outputs[0].Type.DType {
		operators.View(p, n)
	}
}
