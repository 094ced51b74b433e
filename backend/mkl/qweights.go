package mkl

import (
	"math"
	"runtime"
	"sync"
	"weak"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
)

// integers are weights as the library multiplies them: element i is q[i] · scale of its output channel.
type integers struct {
	q      *tensor.Tensor // int8, in the shape of the constant; nil where the constant itself holds them
	scales []float32      // one per index of the axis
	sums   []int64        // of q, per index of the axis
	most   int            // the largest magnitude
}

// quants remembers what constants turned out to be, as long as they live; nil stands for weights that are no integers.
type quants struct {
	mu sync.Mutex
	m  map[quantKey]*integers
}

type quantKey struct {
	constant, scale, zero weak.Pointer[tensor.Tensor]
	axis                  int
}

// weights returns the integers behind weights with output channels along an axis: of a DequantizeLinear of a constant, or
// of the constant that remains when such a node was folded. nil where there are none.
func (b *mkl) weights(v *graph.Value, axis int) *integers {
	x, scale, zero := fuse.Behind(v), (*tensor.Tensor)(nil), (*tensor.Tensor)(nil)
	if n := v.Producer; n != nil {
		if !isDequantize(n) || n.Int("block_size", 0) != 0 {
			return nil
		}
		s, z := fuse.Behind(n.Input(1)), fuse.Behind(n.Input(2))
		if x = fuse.Behind(n.Input(0)); !isTensorConst(x) || !isTensorConst(s) || z != nil && !isTensorConst(z) {
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
	if !isTensorConst(x) {
		return nil
	}
	return b.weightsOf(x.Const, scale, zero, axis)
}

// weightsOf is weights for the tensors themselves; scale is nil where the constant is a float.
func (b *mkl) weightsOf(t, scale, zero *tensor.Tensor, axis int) *integers {
	if axis >= len(t.Shape) {
		return nil
	}
	key := quantKey{weak.Make(t), weak.Make(scale), weak.Make(zero), axis}
	b.quants.mu.Lock()
	defer b.quants.mu.Unlock()
	q, known := b.quants.m[key]
	if known {
		return q
	}
	if scale == nil {
		q = recovered(t, axis)
	} else {
		q = given(t, scale, zero, axis)
	}
	if b.quants.m == nil {
		b.quants.m = map[quantKey]*integers{}
	}
	b.quants.m[key] = q
	runtime.AddCleanup(t, b.quants.forget, key)
	return q
}

func (q *quants) forget(key quantKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.m, key)
}

func isTensorConst(v *graph.Value) bool { return v != nil && v.Const != nil && v.Const.Device.IsHost() }

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
func given(t, scale, zero *tensor.Tensor, axis int) *integers {
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
		w.scales[c] = float32(scale.Float64At(c % scale.Len()))
		if !positive(w.scales[c]) {
			return nil
		}
	}
	src, shift := make([]int64, t.Len()), make([]int64, n)
	if tensor.DecodeInts(src, t) != nil {
		return nil
	}
	shifted := false
	if zero != nil {
		for c := range shift {
			shift[c] = zero.Int64At(c % zero.Len())
			shifted = shifted || shift[c] != 0
		}
	}
	if !w.fill(t.Shape, axis, func(c, i int) int64 { return src[i] - shift[c] }) {
		return nil
	}
	if t.DType == tensor.Int8 && !shifted && t.Strides == nil {
		w.q = nil
	}
	return w
}

// positive reports whether a scale is a usable number.
func positive(s float32) bool {
	return s >= math.SmallestNonzeroFloat32*(1<<23) && !math.IsInf(float64(s), 1)
}

// recovered finds the integers whose multiples a float constant holds, channel by channel: those that a quantiser scaled
// and that were dequantised since. Each weight is a multiple to the precision of float32, so that nothing is lost.
func recovered(t *tensor.Tensor, axis int) *integers {
	f := fuse.Floats(t)
	if f == nil {
		return nil
	}
	w := newIntegers(t.Shape, axis)
	n, inner := t.Shape[axis], product(t.Shape[axis+1:])
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
		w.scales[c], last = s, s
	}
	if !w.fill(t.Shape, axis, func(c, i int) int64 { return int64(math.Round(float64(f[i]) / float64(w.scales[c]))) }) {
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
		if !positive(float32(s)) {
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

func newIntegers(shape []int, axis int) *integers {
	return &integers{scales: numbers[float32](shape[axis]), sums: make([]int64, shape[axis])}
}

// fill sets the elements by channel and index. It reports whether all of them fit.
func (w *integers) fill(shape []int, axis int, at func(c, i int) int64) bool {
	t, err := tensor.New(tensor.Int8, shape...)
	if err != nil {
		return false
	}
	q := tensor.Of[int8](t)
	n, inner := shape[axis], product(shape[axis+1:])
	for i := range q {
		c := i / inner % n
		x := at(c, i)
		if x < math.MinInt8 || x > math.MaxInt8 {
			return false
		}
		q[i] = int8(x)
		w.sums[c] += x
		w.most = max(w.most, int(x), -int(x))
	}
	w.q = t
	return true
}
