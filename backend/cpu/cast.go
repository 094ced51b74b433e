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
	x, y := n.Inputs[0], n.Outputs[0]
	from, to := x.Type.DType, y.Type.DType
	count, target := product(p.Dims[y.ID]), p.target
	switch {
	case isHalf(from) && from == to:
		p.ViewOr(y, x, p.copyStep)
	case isHalf(from) && to == tensor.Float32:
		elements(p, p.In(x), p.Out(y), count, 0.1, func(d []float32, s []uint16) { reorder.FromHalf(target, d, s, halves[from]) })
	case from == tensor.Float32 && isHalf(to):
		elements(p, p.In(x), p.Out(y), count, 0.1, func(d []uint16, s []float32) { reorder.ToHalf(target, d, s, halves[to]) })
	default:
		return casts[from](p, n)
	}
	return nil
}

// casts plan casts in plain loops, by the type that is cast. Bool is stored as 0 or 1.
var casts = map[tensor.DType]func(p *planner, n *graph.Node) error{
	tensor.Float32: fromReal[float32], tensor.Float64: fromReal[float64],
	tensor.Int8: fromInteger[int8], tensor.Int16: fromInteger[int16], tensor.Int32: fromInteger[int32], tensor.Int64: fromInteger[int64],
	tensor.Uint8: fromInteger[uint8], tensor.Uint16: fromInteger[uint16], tensor.Uint32: fromInteger[uint32], tensor.Uint64: fromInteger[uint64],
	tensor.Bool: fromInteger[uint8], tensor.Float16: fromHalf(tensor.Float16ToFloat32), tensor.BFloat16: fromHalf(tensor.BFloat16ToFloat32),
}

func fromReal[S float32 | float64](p *planner, n *graph.Node) error {
	switch dt := n.Outputs[0].Type.DType; dt {
	case tensor.Float32:
		return elementsOf(p, n, convertRow[float32, S])
	case tensor.Float64:
		return elementsOf(p, n, convertRow[float64, S])
	case tensor.Float16, tensor.BFloat16:
		return toHalf(p, n, func(x S) float32 { return float32(x) }) // of float32 only: see castSignatures
	case tensor.Bool:
		return elementsOf(p, n, truths[S])
	case tensor.Uint64:
		return elementwise1(p, n, bitsOf[S])
	case tensor.Int8, tensor.Uint8:
		return elementsOf(p, n, truncated[uint8, S])
	case tensor.Int16, tensor.Uint16:
		return elementsOf(p, n, truncated[uint16, S])
	case tensor.Int32, tensor.Uint32:
		return elementsOf(p, n, truncated[uint32, S])
	}
	return elementsOf(p, n, truncated[int64, S])
}

// truncated sets dst to src without what is behind the point, in the low bits of 64, which are the same with a sign or without.
func truncated[D uint8 | uint16 | uint32 | int64, S float32 | float64](dst []D, src []S) {
	for i, x := range src {
		dst[i] = D(wholeOf(x))
	}
}

func fromInteger[S integer](p *planner, n *graph.Node) error {
	switch n.Outputs[0].Type.DType {
	case tensor.Float32:
		return elementsOf(p, n, convertRow[float32, S])
	case tensor.Float64:
		return elementsOf(p, n, convertRow[float64, S])
	case tensor.Float16, tensor.BFloat16:
		return toHalf(p, n, func(x S) float32 { return sticky(int64(x)) })
	case tensor.Bool:
		return elementsOf(p, n, truths[S])
	case tensor.Int8, tensor.Uint8:
		return elementsOf(p, n, convertRow[uint8, S])
	case tensor.Int16, tensor.Uint16:
		return elementsOf(p, n, convertRow[uint16, S])
	case tensor.Int32, tensor.Uint32:
		return elementsOf(p, n, convertRow[uint32, S])
	}
	return elementsOf(p, n, convertRow[uint64, S])
}

// fromHalf returns what plans casts of half precision, of which decode makes a number.
func fromHalf(decode func(uint16) float32) func(p *planner, n *graph.Node) error {
	return func(p *planner, n *graph.Node) error {
		switch n.Outputs[0].Type.DType {
		case tensor.Float64:
			return elementwise1(p, n, func(h uint16) float64 { return float64(decode(h)) })
		case tensor.Float16, tensor.BFloat16:
			return toHalf(p, n, decode)
		case tensor.Bool:
			return elementwise1(p, n, func(h uint16) bool { return decode(h) != 0 })
		case tensor.Uint64:
			return elementwise1(p, n, func(h uint16) uint64 { return bitsOf(decode(h)) })
		case tensor.Int8, tensor.Uint8:
			return elementwise1(p, n, func(h uint16) uint8 { return uint8(wholeOf(decode(h))) })
		case tensor.Int16, tensor.Uint16:
			return elementwise1(p, n, func(h uint16) uint16 { return uint16(wholeOf(decode(h))) })
		case tensor.Int32, tensor.Uint32:
			return elementwise1(p, n, func(h uint16) uint32 { return uint32(wholeOf(decode(h))) })
		}
		return elementwise1(p, n, func(h uint16) int64 { return wholeOf(decode(h)) })
	}
}

// truths sets dst to whether elements differ from zero.
func truths[S ordered](dst []bool, src []S) {
	for i, x := range src {
		dst[i] = x != 0
	}
}

// toHalf emits a cast to half precision of elements that a function makes float32, from which they are rounded as by themselves.
func toHalf[S tensor.Element](p *planner, n *graph.Node, single func(S) float32) error {
	if n.Outputs[0].Type.DType == tensor.Float16 {
		return elementwise1(p, n, func(s S) uint16 { return tensor.Float32ToFloat16(single(s)) })
	}
	return elementwise1(p, n, func(s S) uint16 { return tensor.Float32ToBFloat16(single(s)) })
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

// halves are the kernels' names of the types of half precision.
var halves = map[tensor.DType]reorder.Element{tensor.Float16: reorder.Float16, tensor.BFloat16: reorder.BFloat16}

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
