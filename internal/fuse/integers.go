package fuse

import (
	"math"
	"runtime"
	"sync"
	"weak"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Integers are weights as kernels on integers multiply them: element i is Q[i] · scale of its output channel. They are
// immutable.
type Integers struct {
	Q      *tensor.Tensor // int8, in the shape of the constant; nil where the constant itself holds them
	Scales []float32      // one per index of the axis
	// Where Quants counts, the sums of the integers per index of the axis, and their largest magnitude.
	Sums []int64
	Most int
}

// Quants remembers what constants turned out to be, as long as they live; nil stands for weights that are no integers. The zero
// value is ready, and safe for concurrent use.
type Quants struct {
	// Counts says that sums and magnitudes are wanted, for which all weights have to be read when one asks for them.
	Counts bool

	mu sync.Mutex
	m  map[quantKey]*Integers
}

type quantKey struct {
	constant, scale, zero weak.Pointer[tensor.Tensor]
	axis                  int
}

// Weights returns the integers behind weights with output channels along an axis: of a DequantizeLinear of a constant, or
// of the constant that remains when such a node was folded. nil where there are none.
func (q *Quants) Weights(v *graph.Value, axis int) *Integers {
	x, scale, zero := Behind(v), (*tensor.Tensor)(nil), (*tensor.Tensor)(nil)
	if n := v.Producer; n != nil {
		if !n.Is("DequantizeLinear") || n.Int("block_size", 0) != 0 {
			return nil
		}
		s, z := Behind(n.Input(1)), Behind(n.Input(2))
		if x = Behind(n.Input(0)); !IsTensorConst(x) || !IsTensorConst(s) || z != nil && !IsTensorConst(z) {
			return nil
		}
		if s.Const.Len() != 1 && axisOf(n, len(x.Const.Shape)) != axis {
			return nil
		}
		scale = s.Const
		if z != nil {
			zero = z.Const
		}
	}
	if !IsTensorConst(x) {
		return nil
	}
	return q.WeightsOf(x.Const, scale, zero, axis)
}

// WeightsOf is Weights for the tensors themselves; scale is nil where the constant is a float.
func (q *Quants) WeightsOf(t, scale, zero *tensor.Tensor, axis int) *Integers {
	if axis >= len(t.Shape) {
		return nil
	}
	key := quantKey{weak.Make(t), weak.Make(scale), weak.Make(zero), axis}
	q.mu.Lock()
	defer q.mu.Unlock()
	w, known := q.m[key]
	if known {
		return w
	}
	if scale == nil {
		w = recovered(t, axis)
	} else {
		w = given(t, scale, zero, axis)
	}
	if w != nil && q.Counts {
		w.count(t, axis)
	}
	if q.m == nil {
		q.m = map[quantKey]*Integers{}
	}
	q.m[key] = w
	runtime.AddCleanup(t, q.forget, key)
	return w
}

func (q *Quants) forget(key quantKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.m, key)
}

// IsTensorConst reports whether v is a constant in host memory.
func IsTensorConst(v *graph.Value) bool { return v != nil && v.Const != nil && v.Const.Device.IsHost() }

// axisOf returns the axis of a quantisation of a tensor of that rank, -1 where it has none.
func axisOf(n *graph.Node, rank int) int {
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return -1
	}
	return axis
}

// given reads integers of eight bits with their scales and zero points: one, or one per index of the axis.
func given(t, scale, zero *tensor.Tensor, axis int) *Integers {
	if t.DType != tensor.Int8 && t.DType != tensor.Uint8 || scale.DType != tensor.Float32 {
		return nil
	}
	n := t.Shape[axis]
	if l := scale.Len(); l != 1 && l != n {
		return nil
	}
	if zero != nil && (zero.DType != t.DType || zero.Len() != 1 && zero.Len() != n) {
		return nil
	}
	w := newIntegers(t.Shape, axis)
	for c := range n {
		w.Scales[c] = float32(scale.Float64At(c % scale.Len()))
		if !Usable(w.Scales[c]) {
			return nil
		}
	}
	shift, shifted := make([]int64, n), false
	if zero != nil {
		for c := range shift {
			shift[c] = zero.Int64At(c % zero.Len())
			shifted = shifted || shift[c] != 0
		}
	}
	if t.DType == tensor.Int8 && !shifted && t.Strides == nil {
		return w
	}
	if !t.IsCompact() {
		compact, err := t.Clone()
		if err != nil {
			return nil
		}
		t = compact
	}
	if !w.shift(t, axis, shift) {
		return nil
	}
	return w
}

// shift sets the elements to those of a compact tensor less what belongs to their channel. It reports whether all of them fit.
func (w *Integers) shift(t *tensor.Tensor, axis int, by []int64) bool {
	q, err := tensor.New(tensor.Int8, t.Shape...)
	if err != nil {
		return false
	}
	w.Q = q
	if t.DType == tensor.Int8 {
		return shiftRows(tensor.Of[int8](q), tensor.Of[int8](t), by, elements(t.Shape[axis+1:]))
	}
	return shiftRows(tensor.Of[int8](q), tensor.Of[uint8](t), by, elements(t.Shape[axis+1:]))
}

// shiftRows does it for channels of inner elements.
func shiftRows[T int8 | uint8](to []int8, from []T, by []int64, inner int) bool {
	ok := true
	eachRow(len(from), len(by), inner, func(c, at, n int) {
		x, y := from[at:at+n], to[at:at+n]
		for i := range x {
			k := int64(x[i])
			if inner == 1 {
				k -= by[i]
			} else {
				k -= by[c]
			}
			y[i], ok = int8(k), ok && k == int64(int8(k))
		}
	})
	return ok
}

// eachRow calls do for rows of count elements, at from on: those of channel c, or one of every channel where they lie next to each other.
func eachRow(count, channels, inner int, do func(c, at, n int)) {
	n := inner
	if inner == 1 {
		n = channels
	}
	for at, c := 0, 0; n > 0 && at < count; at += n {
		do(c, at, n)
		if c++; c == channels {
			c = 0
		}
	}
}

// Usable reports whether a scale is a positive number that is not subnormal.
func Usable(s float32) bool {
	return s >= math.SmallestNonzeroFloat32*(1<<23) && !math.IsInf(float64(s), 1)
}

// recovered finds the integers whose multiples a float constant holds, channel by channel: those that a quantiser scaled
// and that were dequantised since. Each weight is a multiple to the precision of float32, so that nothing is lost.
func recovered(t *tensor.Tensor, axis int) *Integers {
	f := Floats(t)
	if f == nil {
		return nil
	}
	w := newIntegers(t.Shape, axis)
	n, inner := t.Shape[axis], elements(t.Shape[axis+1:])
	last := float32(0)
	for c := range n {
		each := func(fn func(x float32) bool) bool {
			for o := c * inner; o < len(f); o += n * inner {
				for _, x := range f[o : o+inner] {
					if !fn(x) {
						return false
					}
				}
			}
			return true
		}
		most := float32(0)
		if !each(func(x float32) bool {
			most = max(most, x, -x)
			return x-x == 0
		}) {
			return nil
		}
		s, ok := scaleOf(most, last, each)
		if !ok {
			return nil
		}
		w.Scales[c], last = s, s
	}
	if !w.fill(t.Shape, axis, func(c, i int) int64 { return int64(math.Round(float64(f[i]) / float64(w.Scales[c]))) }) {
		return nil
	}
	return w
}

// scaleOf returns the largest scale of which all numbers are multiples that fit into eight bits, or the one before it if that
// does.
func scaleOf(most, before float32, each func(func(float32) bool) bool) (float32, bool) {
	if most == 0 {
		return 1, true
	}
	fits := func(s float64) bool {
		if !Usable(float32(s)) {
			return false
		}
		return each(func(x float32) bool {
			r := float64(x) / s
			k := math.Round(r)
			return math.Abs(r-k) <= 1e-6*math.Abs(k) && k >= math.MinInt8 && k <= math.MaxInt8
		})
	}
	if before > 0 && fits(float64(before)) {
		return before, true
	}
	for k := 1; k <= -math.MinInt8; k++ {
		if s := float64(most) / float64(k); fits(s) {
			return float32(s), true
		}
	}
	return 0, false
}

// count adds up the integers, which are those of the constant where they have no tensor of their own.
func (w *Integers) count(t *tensor.Tensor, axis int) {
	if w.Q != nil {
		t = w.Q
	}
	q, inner := tensor.Of[int8](t), elements(t.Shape[axis+1:])
	w.Sums = make([]int64, t.Shape[axis])
	eachRow(len(q), len(w.Sums), inner, func(c, at, n int) {
		sum, most := int64(0), w.Most
		for i, x := range q[at : at+n] {
			most = max(most, int(x), -int(x))
			if inner == 1 {
				w.Sums[i] += int64(x)
			} else {
				sum += int64(x)
			}
		}
		w.Sums[c] += sum
		w.Most = most
	})
}

func newIntegers(shape []int, axis int) *Integers {
	return &Integers{Scales: make([]float32, shape[axis])}
}

// fill sets the elements by channel and index. It reports whether all of them fit.
func (w *Integers) fill(shape []int, axis int, at func(c, i int) int64) bool {
	t, err := tensor.New(tensor.Int8, shape...)
	if err != nil {
		return false
	}
	q := tensor.Of[int8](t)
	n, inner := shape[axis], elements(shape[axis+1:])
	for i := range q {
		c := i / inner % n
		x := at(c, i)
		if x < math.MinInt8 || x > math.MaxInt8 {
			return false
		}
		q[i] = int8(x)
	}
	w.Q = t
	return true
}

func elements(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
