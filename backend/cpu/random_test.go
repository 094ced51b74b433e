package cpu_test

import (
	"math"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// randomGraph grows a model of images, matrices and masks node by node. Results that leave what float32 resolves well
// (large, flat, not finite) are dropped, and functions with steps are applied only to values that every backend computes
// bit by bit alike.
type randomGraph struct {
	*model
	values []*graph.Value
	exact  map[*graph.Value]bool
	batch  int
	symbol bool // the batch is a symbol
}

func newRandomGraph(seed uint64) *randomGraph {
	r := &randomGraph{model: newModel(seed), exact: map[*graph.Value]bool{}}
	r.batch, r.symbol = pick(r.model, 1, 1, 2, 3), r.chance(3)
	for range r.between(1, 2) {
		r.source(r.batch, r.channels(), r.between(1, 6), r.between(1, 7))
	}
	if r.chance(2) {
		r.source(r.batch, r.between(1, 5), r.between(1, 24))
	}
	return r
}

func (r *randomGraph) channels() int { return pick(r.model, 3, 5, 16, 16, 20, 32, r.between(1, 40)) }

func (r *randomGraph) source(shape ...int) *graph.Value {
	t := r.floats(shape...)
	ty := graph.TypeOf(t)
	if r.symbol && shape[0] == r.batch {
		ty.Shape = append(graph.Shape{graph.Sym("N")}, ty.Shape[1:]...)
	}
	v := r.feedAs(ty, t)
	r.values, r.exact[v] = append(r.values, v), true
	return v
}

// any returns a float value of that rank, 0 for any; recent ones more often.
func (r *randomGraph) any(rank int) *graph.Value {
	var fit []*graph.Value
	for i, v := range r.values {
		t := r.known[v]
		if t.DType == tensor.Float32 && (rank == 0 || len(t.Shape) == rank) {
			fit = append(fit, v)
			if i > len(r.values)-4 {
				fit = append(fit, v, v)
			}
		}
	}
	if len(fit) == 0 {
		return r.source(append([]int{r.batch, r.channels(), r.between(1, 5), r.between(1, 5)}[:max(rank, 1)], nil...)...)
	}
	return pick(r.model, fit...)
}

// like returns a value of the same shape, which may be the value itself.
func (r *randomGraph) like(v *graph.Value) *graph.Value {
	var fit []*graph.Value
	for _, u := range r.values {
		if u.Type.Equal(v.Type) {
			fit = append(fit, u)
		}
	}
	return pick(r.model, fit...)
}

// apply adds a node; nil where the operator refuses, or the result is none to go on with.
func (r *randomGraph) apply(exact bool, op string, outputs int, in []*graph.Value, attrs ...graph.Attr) *graph.Value {
	out := r.try(op, outputs, in, attrs...)
	if out == nil {
		return nil
	}
	for _, v := range in {
		exact = exact && (v == nil || r.exact[v] || v.IsConst())
	}
	for _, v := range out {
		if !exact && !r.tame(v) {
			r.g.Remove(v.Producer)
			return nil
		}
	}
	for _, v := range out {
		r.values = append(r.values, v)
		r.exact[v] = exact
	}
	return out[0]
}

// tame reports whether a float value spreads enough, and not too much, to be compared by its deviation.
func (r *randomGraph) tame(v *graph.Value) bool {
	t := r.known[v]
	if t.DType != tensor.Float32 || t.Len() == 0 {
		return true
	}
	sum, squares, most := 0.0, 0.0, 0.0
	s := tensor.Of[float32](t)
	for _, x := range s {
		sum, squares, most = sum+float64(x), squares+float64(x)*float64(x), max(most, math.Abs(float64(x)))
	}
	n := float64(len(s))
	return most < 100 && (len(s) == 1 || math.Sqrt(max(0, squares/n-sum/n*sum/n)) > 0.02*most) // NaN fails
}

func (r *randomGraph) convolve() {
	x := r.any(4)
	d := r.known[x].Shape
	k := [2]int{min(r.between(1, 3), d[2]), min(r.between(1, 3), d[3])}
	oc, g := r.channels(), 1
	switch r.r.IntN(5) {
	case 0:
		oc, g = d[1], d[1]
	case 1:
		if d[1]%2 == 0 {
			oc, g = oc*2, 2
		}
	}
	scaled := func(shape ...int) *graph.Value {
		return r.scaled(1/math.Sqrt(float64(shape[1]*shape[2]*shape[3])), shape...)
	}
	in := []*graph.Value{x, nil}
	if r.chance(2) {
		in = append(in, r.constant(oc))
	}
	if r.chance(8) && g == 1 {
		in[1] = scaled(d[1], oc, k[0], k[1])
		r.apply(false, "ConvTranspose", 1, in, strides(2, 1))
		return
	}
	in[1] = scaled(oc, d[1]/g, k[0], k[1])
	p := []int64{int64(k[0] / 2), int64(k[1] / 2), int64(k[0] / 2), int64(k[1] / 2)}
	r.apply(false, "Conv", 1, in, pads(p...), strides(int64(r.between(1, 2)), 1), group(g))
}

func (r *randomGraph) activation() {
	x := r.any(0)
	switch r.r.IntN(8) {
	case 0:
		r.apply(true, "Relu", 1, []*graph.Value{x})
	case 1:
		r.apply(true, "Clip", 1, []*graph.Value{x, r.scalar(-0.5), r.scalar(2)})
	case 2, 3:
		if s := r.apply(false, "Sigmoid", 1, []*graph.Value{x}); s != nil {
			r.apply(false, "Mul", 1, []*graph.Value{x, s})
		}
	case 4:
		r.apply(true, "Neg", 1, []*graph.Value{x})
	case 5:
		r.apply(false, pick(r.model, "Exp", "Softplus", "Erf"), 1, []*graph.Value{x})
	default:
		r.apply(false, pick(r.model, "Tanh", "HardSwish", "LeakyRelu", "Elu", "Gelu"), 1, []*graph.Value{x})
	}
}

func (r *randomGraph) combine() {
	x := r.any(0)
	y := r.like(x)
	d := r.known[x].Shape
	if len(d) == 4 {
		switch r.r.IntN(6) {
		case 0:
			y = r.constant(1, d[1], 1, 1)
		case 1:
			y = r.constant(d[1], 1, 1)
		case 2:
			y = r.apply(false, "GlobalAveragePool", 1, []*graph.Value{x})
		case 3:
			y = r.scalar(float32(r.r.NormFloat64()))
		}
	} else if r.chance(3) && len(d) > 0 {
		y = r.constant(d[len(d)-1])
	}
	if y == nil {
		return
	}
	in := []*graph.Value{x, y}
	if r.chance(3) {
		in = []*graph.Value{y, x}
	}
	op := pick(r.model, "Add", "Add", "Mul", "Sub", "Max", "Min")
	r.apply(op == "Max" || op == "Min", op, 1, in)
}

func (r *randomGraph) join() {
	x := r.any(4)
	d := r.known[x].Shape
	in := []*graph.Value{x}
	for range r.between(0, 3) {
		for range 4 {
			if y := r.any(4); y.Type.Shape[0].Equal(x.Type.Shape[0]) && slices.Equal(r.known[y].Shape[2:], d[2:]) {
				in = append(in, y)
				break
			}
		}
	}
	r.apply(true, "Concat", 1, in, axis(1))
}

func (r *randomGraph) part() {
	x := r.any(4)
	c := r.known[x].Shape[1]
	if c < 2 {
		return
	}
	a := r.between(1, c-1)
	switch r.r.IntN(3) {
	case 0:
		r.apply(true, "Split", 2, []*graph.Value{x, r.ints(int64(a), int64(c-a))}, axis(1))
	case 1:
		r.apply(true, "Slice", 1, []*graph.Value{x, r.ints(int64(a / 16 * 16)), r.ints(1 << 40), r.ints(1)})
	case 2:
		r.apply(true, "Slice", 1, []*graph.Value{x, r.ints(-1, 0), r.ints(-1<<40, int64(a)), r.ints(3, 1), r.ints(-1, 1)})
	}
}

func (r *randomGraph) shuffle() {
	x := r.any(4)
	d := r.known[x].Shape
	for g := 2; g < 5; g++ {
		if d[1]%g != 0 {
			continue
		}
		y := r.apply(true, "Reshape", 1, []*graph.Value{x, r.ints(0, int64(g), int64(d[1]/g), int64(d[2]), int64(d[3]))})
		if y != nil {
			y = r.apply(true, "Transpose", 1, []*graph.Value{y}, graph.IntsAttr("perm", 0, 2, 1, 3, 4))
		}
		if y != nil {
			r.apply(true, "Reshape", 1, []*graph.Value{y, r.ints(0, int64(d[1]), int64(d[2]), int64(d[3]))})
		}
		return
	}
}

func (r *randomGraph) move() {
	switch r.r.IntN(5) {
	case 0:
		r.apply(true, "Transpose", 1, []*graph.Value{r.any(4)}, graph.IntsAttr("perm", pick(r.model, []int64{0, 2, 3, 1}, []int64{0, 1, 3, 2}, []int64{0, 3, 1, 2})...))
	case 1:
		r.apply(true, "Flatten", 1, []*graph.Value{r.any(0)}, axis(1))
	case 2:
		r.apply(true, "Pad", 1, []*graph.Value{r.any(4), r.ints(0, 0, 1, 0, 0, int64(r.r.IntN(3)*r.r.IntN(13)), 1, 2)})
	case 3:
		r.apply(true, "Reshape", 1, []*graph.Value{r.any(4), r.ints(0, 0, -1)})
	case 4:
		r.apply(true, pick(r.model, "Identity", "Unsqueeze"), 1, []*graph.Value{r.any(3), r.ints(1)})
	}
}

func (r *randomGraph) pool() {
	x := r.any(4)
	switch r.r.IntN(4) {
	case 0:
		r.apply(true, "MaxPool", 1, []*graph.Value{x}, kernel(2, 2), pads(1, 1, 0, 1), strides(int64(r.between(1, 2)), 1))
	case 1:
		r.apply(false, "AveragePool", 1, []*graph.Value{x}, kernel(1, 2), pads(0, 1, 0, 0))
	case 2:
		r.apply(false, pick(r.model, "GlobalAveragePool", "GlobalMaxPool"), 1, []*graph.Value{x})
	case 3:
		c := r.known[x].Shape[1]
		abs := r.floats(c)
		for i, s := 0, tensor.Of[float32](abs); i < c; i++ {
			s[i] = s[i]*s[i] + 0.1
		}
		r.apply(false, "BatchNormalization", 1, []*graph.Value{x, r.constant(c), r.constant(c), r.constant(c), r.data(abs)})
	}
}

func (r *randomGraph) rows() {
	x := r.any(pick(r.model, 2, 3, 3, 4))
	d := r.known[x].Shape
	k := d[len(d)-1]
	switch r.r.IntN(7) {
	case 0, 1:
		y := r.apply(false, "MatMul", 1, []*graph.Value{x, r.constant(k, r.between(1, 33))})
		if y != nil && r.chance(2) {
			y = r.apply(false, "Add", 1, []*graph.Value{y, r.constant(r.known[y].Shape[len(d)-1])})
		}
		if y != nil && r.chance(2) {
			r.apply(false, "Add", 1, []*graph.Value{y, r.like(y)})
		}
	case 2:
		t := make([]int64, len(d))
		for i := range t {
			t[i] = int64(i)
		}
		t[len(d)-1], t[len(d)-2] = t[len(d)-2], t[len(d)-1]
		if y := r.apply(true, "Transpose", 1, []*graph.Value{x}, graph.IntsAttr("perm", t...)); y != nil {
			r.apply(false, "MatMul", 1, []*graph.Value{x, y})
		}
	case 3:
		r.apply(false, "Softmax", 1, []*graph.Value{x})
	case 4:
		r.apply(false, "LayerNormalization", 1, []*graph.Value{x, r.constant(k), r.constant(k)}, graph.FloatAttr("epsilon", 0.1))
	case 5:
		r.apply(false, pick(r.model, "ReduceMean", "ReduceSum"), 1, []*graph.Value{x, r.ints(int64(r.between(1, len(d)-1)))}, graph.IntAttr("keepdims", int64(r.r.IntN(2))))
	case 6:
		if len(d) == 2 {
			r.apply(false, "Gemm", 1, []*graph.Value{x, r.constant(9, k), r.constant(9)}, graph.IntAttr("transB", 1))
		}
	}
}

// mask compares values that are exact, and uses the result.
func (r *randomGraph) mask() {
	x := r.any(0)
	y := r.like(x)
	if !r.exact[x] || !r.exact[y] {
		return
	}
	if m := r.apply(true, pick(r.model, "Less", "GreaterOrEqual"), 1, []*graph.Value{x, y}); m != nil {
		r.apply(true, "Where", 1, []*graph.Value{m, r.like(x), r.scalar(0.25)})
	}
}

// grow adds about n nodes and chooses outputs: everything that nobody reads, and some of what is read.
func (r *randomGraph) grow(n int) {
	for range n {
		kinds := []func(){r.convolve, r.convolve, r.activation, r.activation, r.activation, r.combine, r.combine, r.join, r.join, r.part,
			r.shuffle, r.move, r.pool, r.rows, r.mask}
		kinds[r.r.IntN(len(kinds))]()
	}
	var out []*graph.Value
	for _, v := range r.values {
		if v.NumUses() == 0 || r.chance(8) {
			out = append(out, v)
			if r.chance(10) {
				out = append(out, v)
			}
		}
	}
	r.g.SetOutputs(out...)
}

// randomWay returns a way to run a graph; parts of it may be refused, or be run by a second instance of the backend.
func (r *randomGraph) randomWay() way {
	w := way{target: pick(r.model, isa.Targets()...), guarded: r.chance(2), side: pick(r.model, guard.End, guard.Start), threads: r.between(1, 2)}
	if r.chance(3) {
		w.refuse = r.between(2, 5)
	}
	w.second = r.chance(3)
	return w
}

func checkRandomGraph(seed uint64) (*randomGraph, way, error) {
	r := newRandomGraph(seed)
	r.grow(r.between(3, 25))
	w := r.randomWay()
	if len(r.g.Outputs) == 0 {
		return r, w, nil
	}
	return r, w, r.run(w)
}

var _ = Describe("random graphs", func() {
	It("agree with the reference kernels", func() {
		for seed := range uint64(400) {
			r, w, err := checkRandomGraph(seed)
			Expect(err).NotTo(HaveOccurred(), "seed %d, %v\n%v", seed, w, r.model)
		}
	})
})

func FuzzGraph(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		RegisterTestingT(t)
		if r, w, err := checkRandomGraph(seed); err != nil {
			t.Fatalf("seed %d, %v: %v\n%v", seed, w, err, r.model)
		}
	})
}
