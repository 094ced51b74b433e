package backendtest

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// testedTypes are the element types of random operands.
var testedTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Int16, tensor.Int8,
	tensor.Uint64, tensor.Uint32, tensor.Uint16, tensor.Uint8, tensor.Bool}

// dtype returns a type of the operator's operands: float32 mostly, any that its schema has at times.
func (m *maker) dtype(op string, port int) tensor.DType {
	types := m.call(op).types(port)
	if len(types) == 0 || types[0] == tensor.Float32 && !m.chance(4) {
		return tensor.Float32
	}
	return pick(m, types...)
}

// lengths are those of dims: ones, primes, multiples of vectors and what lies beside them.
var lengths = []int{1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 19, 31, 32, 33, 49, 50, 64, 67, 77, 128, 197}

// rank returns a rank from lo to hi, seldom one above.
func (m *maker) rank(lo, hi int) int {
	if m.small {
		hi = max(hi, 6)
	}
	if m.chance(16) {
		return hi + m.between(1, 3)
	}
	return m.between(lo, hi)
}

// length returns the length of a dim, seldom 0 in its place.
func (m *maker) length(n int) int {
	if m.chance(24) || m.small && m.chance(6) {
		return 0
	}
	return n
}

// shape returns dims of that rank, of a few thousand elements, seldom of many; a third of those of rank 3 and more are
// matrices with little in front, whose transposition takes kernels of their own.
func (m *maker) shape(rank int) []int {
	if m.small {
		return m.corner(rank)
	}
	most := 8000
	if m.chance(16) {
		most = 200_000
	}
	out, matrix, wide := make([]int, rank), rank > 2 && m.chance(3), m.chance(2)
	for try := 0; ; try++ {
		n := 1
		for i := range out {
			out[i] = pick(m, lengths[:max(1, len(lengths)-try)]...)
			if matrix && i < rank-2 {
				out[i] = pick(m, 1, 1, 2, 3)
			} else if matrix && (i == rank-1) == wide {
				out[i] = pick(m, 8, 16, 32, 64, 128)
			} else if matrix {
				out[i] = pick(m, 7, 17, 31, 37, 49, 50, 77)
			}
			n *= out[i]
		}
		if n <= most {
			break
		}
	}
	if rank > 0 {
		a := m.r.IntN(rank)
		out[a] = m.length(out[a])
	}
	if rank > 0 && m.chance(5) {
		m.symbol = out[0]
	}
	return out
}

// corner returns dims of that rank of 0 to 3, so that the product of all is small.
func (m *maker) corner(rank int) []int {
	out := make([]int, rank)
	for i := range out {
		out[i] = m.length(pick(m, 1, 1, 2, 3))
	}
	if rank > 0 && m.chance(5) {
		m.symbol = out[0]
	}
	return out
}

// image returns dims [N, C, …] with so many spatial ones.
func (m *maker) image(spatial int) []int {
	out := []int{pick(m, 1, 1, 2, 3), pick(m, 1, 3, 4, 5, 8, 15, 16, 17, 20, 32, 33, 48)}
	side := map[int]int{1: 70, 2: 19, 3: 7}[spatial]
	for range spatial {
		out = append(out, m.between(1, side))
	}
	out[0] = m.length(out[0])
	if m.small {
		for i := range out {
			out[i] = m.length(pick(m, 1, 1, 2, 3, out[i]))
		}
	}
	if m.chance(5) {
		m.symbol = out[0]
	}
	return out
}

// oddities are floats that are no ordinary numbers.
var oddities = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 0x1p-140, -0x1p-140, 0x1p-126}

// fill returns a tensor of what f gives.
func (m *maker) fill(dt tensor.DType, shape []int, f func(i int) float64) *tensor.Tensor {
	t, err := tensor.New(dt, shape...)
	if err != nil {
		m.err = err
		return &tensor.Tensor{DType: dt, Shape: []int{0}}
	}
	v := make([]float64, t.Len())
	for i := range v {
		v[i] = f(i)
	}
	if err := tensor.Encode(t, v); err != nil && m.err == nil {
		m.err = err
	}
	return t
}

// number returns a number of a type: normal deviates, small integers, 0 and 1.
func (m *maker) number(dt tensor.DType) float64 {
	switch {
	case dt == tensor.Bool:
		return float64(m.r.IntN(2))
	case dt.IsFloat() && m.odd && m.chance(6):
		return pick(m, oddities...)
	case dt.IsFloat():
		return m.r.NormFloat64()
	case dt.IsUnsigned():
		return float64(m.r.IntN(12))
	}
	return float64(m.between(-9, 9))
}

// random returns a tensor of random numbers.
func (m *maker) random(dt tensor.DType, shape ...int) *tensor.Tensor {
	return m.fill(dt, shape, func(int) float64 { return m.number(dt) })
}

// operand adds an operand that every backend sees exactly: an input or a constant, or what nodes make of one that only move
// it, change its sign, or dequantise it.
func (m *maker) operand(dt tensor.DType, shape ...int) *graph.Value {
	if !dt.IsFloat() || m.chance(3) {
		return m.leaf(m.random(dt, shape...))
	}
	switch m.r.IntN(6) {
	case 0:
		return m.call("Neg", m.leaf(m.random(dt, shape...))).one()
	case 1:
		if dt == tensor.Float32 {
			return m.dequantized(shape...)
		}
	case 2:
		perm := m.r.Perm(len(shape))
		before := make([]int, len(shape))
		for i, p := range perm {
			before[p] = shape[i]
		}
		return m.call("Transpose", m.leaf(m.random(dt, before...))).ints("perm", perm...).one()
	}
	return m.leaf(m.random(dt, shape...))
}

// leaf adds an input or a constant.
func (m *maker) leaf(t *tensor.Tensor) *graph.Value {
	if m.chance(4) {
		return m.constant(t)
	}
	return m.feed(t)
}

// parameter adds a constant mostly, as weights are, and an input at times.
func (m *maker) parameter(t *tensor.Tensor) *graph.Value {
	if m.chance(8) {
		return m.feed(t)
	}
	return m.constant(t)
}

// uniform returns a tensor of numbers in [lo, hi].
func (m *maker) uniform(dt tensor.DType, lo, hi float64, shape ...int) *tensor.Tensor {
	return m.fill(dt, shape, func(int) float64 {
		x := lo + (hi-lo)*m.r.Float64()
		if m.odd && dt.IsFloat() && m.chance(6) {
			return pick(m, oddities...)
		}
		if !dt.IsFloat() {
			x = math.Round(x)
		}
		return x
	})
}

// within adds an operand of numbers in [lo, hi].
func (m *maker) within(dt tensor.DType, lo, hi float64, shape ...int) *graph.Value {
	return m.leaf(m.uniform(dt, lo, hi, shape...))
}

// weights adds a parameter of normal deviates such that sums of fan products keep the deviation.
func (m *maker) weights(dt tensor.DType, fan int, shape ...int) *graph.Value {
	return m.parameter(m.fill(dt, shape, func(int) float64 { return m.r.NormFloat64() / math.Sqrt(float64(max(fan, 1))) }))
}

// broadcast returns dims that broadcast to shape.
func (m *maker) broadcast(shape []int) []int {
	var out []int
	for _, d := range shape {
		if m.chance(2) {
			d = 1
		}
		out = append(out, d)
	}
	return out[m.between(0, len(out)):]
}

// tolerances of results in floating-point types, as a share of themselves and of the largest.
var tolerances = map[tensor.DType][2]float64{tensor.Float32: {1e-4, 2e-5}, tensor.Float64: {1e-4, 2e-5}, tensor.Float16: {4e-3, 2e-3}, tensor.BFloat16: {3e-2, 1.6e-2}}

// differ returns what is wrong with a result, "" where nothing is. A few elements may differ by slack, where that is not 0.
func differ(got, want *tensor.Tensor, slack float64) string {
	if got.DType != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Sprintf("is %v, expected %v", got, want)
	}
	share, known := tolerances[want.DType]
	if !known && slack == 0 {
		if string(got.Bytes()) != string(want.Bytes()) {
			return "has other bytes: " + first(got, want)
		}
		return ""
	}
	large := 0.0
	for i := range want.Len() {
		if x := math.Abs(want.Float64At(i)); !math.IsInf(x, 0) && !math.IsNaN(x) {
			large = max(large, x)
		}
	}
	off := 0
	for i := range want.Len() {
		x, y := got.Float64At(i), want.Float64At(i)
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			continue
		}
		limit := share[0]*math.Abs(y) + share[1]*large
		switch d := math.Abs(x - y); {
		case d <= limit:
		case d <= limit+slack*1.001:
			off++
		default:
			return fmt.Sprintf("[%d] is %g, expected %g", i, x, y)
		}
	}
	if off > 2+want.Len()/50 {
		return fmt.Sprintf("has %d elements of %d that are a step of quantisation off", off, want.Len())
	}
	return ""
}

// first names the first element that differs.
func first(got, want *tensor.Tensor) string {
	for i := range want.Len() {
		if x, y := got.Float64At(i), want.Float64At(i); x != y {
			return fmt.Sprintf("[%d] is %g, expected %g", i, x, y)
		}
	}
	return "in their last bits"
}
