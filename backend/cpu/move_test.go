package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// shapeOf returns random dims.
func (m *model) shape(rank, lo, hi int) []int {
	s := make([]int, rank)
	for i := range s {
		s[i] = m.between(lo, hi)
	}
	return s
}

// anyType adds an input of an element type of every size.
func anyType(m *model, shape ...int) *graph.Value {
	GinkgoHelper()
	return small(m, pick(m, tensor.Float32, tensor.Int64, tensor.Bool, tensor.Float64, tensor.Uint8, tensor.Float32), shape...)
}

var _ = Describe("moves", func() {
	It("of pixels whose channels are taken apart, or put beside each other, agree with the reference kernels", seeds(60, func(m *model) {
		c, h, w := m.between(1, 5), m.between(1, 6), m.between(1, 70)
		dt := pick(m, tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Float64)
		m.sample(m.op("Transpose", small(m, dt, 1, c, h, w), graph.IntsAttr("perm", 0, 2, 3, 1)),
			m.op("Transpose", small(m, dt, 2, h, w, c), graph.IntsAttr("perm", 0, 3, 1, 2)),
			m.op("SpaceToDepth", small(m, dt, 1, c, 2*h, 2*w), graph.IntAttr("blocksize", 2)),
			m.op("DepthToSpace", small(m, dt, 1, 4*c, h, w), graph.IntAttr("blocksize", 2)))
	}))

	It("of long matrices of few columns or rows agree with the reference kernels", seeds(4, func(m *model) {
		dt := pick(m, tensor.Uint8, tensor.Int16, tensor.Float64)
		k, n := m.between(2, 4), m.between(33000, 40000)
		m.sample(m.op("Transpose", small(m, dt, n, k)), m.op("Transpose", small(m, dt, k, n)))
	}))

	It("of Transpose agree with the reference kernels", seeds(60, func(m *model) {
		shape := m.shape(m.between(0, 5), 1, 7)
		if m.chance(10) && len(shape) > 0 {
			shape[0] = 0
		}
		x := anyType(m, shape...)
		perm := make([]int64, len(shape))
		for i, p := range m.r.Perm(len(shape)) {
			perm[i] = int64(p)
		}
		y := m.op("Transpose", x, graph.IntsAttr("perm", perm...))
		if len(shape) == 0 || m.chance(4) {
			y = m.op("Transpose", x)
		}
		m.sample(y)
	}))

	It("of Transpose are wide enough for kernels", seeds(10, func(m *model) {
		x := m.input(m.between(1, 3), m.between(1, 70), m.between(1, 70), m.between(1, 3))
		m.sample(m.op("Transpose", x, graph.IntsAttr("perm", pick(m, []int64{0, 2, 1, 3}, []int64{0, 3, 2, 1}, []int64{2, 1, 0, 3}, []int64{3, 2, 0, 1})...)))
	}))

	It("of Slice agree with the reference kernels", seeds(80, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 9)
		if m.chance(10) {
			shape[m.r.IntN(len(shape))] = 0
		}
		x := anyType(m, shape...)
		var starts, ends, axes, steps []int64
		for _, a := range m.r.Perm(len(shape))[:m.between(1, len(shape))] {
			d := shape[a]
			starts = append(starts, int64(m.between(-d-2, d+2)))
			ends = append(ends, int64(m.between(-d-2, d+2)))
			steps = append(steps, int64(pick(m, 1, 1, 2, 3, -1, -2)))
			axes = append(axes, int64(a-pick(m, 0, len(shape))))
			if m.chance(3) {
				starts[len(starts)-1], ends[len(ends)-1] = 0, 1<<40
				if steps[len(steps)-1] < 0 {
					starts[len(starts)-1], ends[len(ends)-1] = 1<<40, -1<<40
				}
			}
		}
		y := m.op("Slice", x, m.ints(starts...), m.ints(ends...), m.ints(axes...), m.ints(steps...))
		out := []*graph.Value{y}
		if m.known[x].DType == tensor.Float32 && m.chance(2) {
			out = []*graph.Value{m.op("Exp", m.op("Slice", m.op("Neg", x), m.ints(starts...), m.ints(ends...), m.ints(axes...), m.ints(steps...)))}
		}
		m.sample(out...)
	}))

	It("of Slice are long enough for kernels that take every second element", seeds(20, func(m *model) {
		x := m.input(m.between(1, 3), m.between(1, 9), m.between(30, 1200))
		y := m.op("Slice", x, m.ints(0, int64(m.r.IntN(3))), m.ints(1<<40, int64(m.between(60, 1300))), m.ints(1, 2), m.ints(int64(m.between(1, 2)), 2))
		m.sample(y, m.op("Exp", y))
	}))

	It("of Slice by places that the run tells agree with the reference kernels", seeds(80, func(m *model) {
		shape := m.shape(m.between(1, 4), 0, 9)
		if m.chance(8) {
			shape = append(shape, 1<<15) // for several threads
		}
		rank := len(shape)
		count := m.between(1, rank)
		lists := make([][]int64, 4) // starts, ends, axes, steps
		for _, a := range m.r.Perm(rank)[:count] {
			d, step := shape[a], int64(pick(m, 1, 1, 1, 2, 3, -1, -2, 1<<62, -1<<63))
			from, to := int64(m.between(-d-2, d+2)), int64(m.between(-d-2, d+2))
			if m.chance(2) {
				from, to = pick(m, 0, from, -1<<63), 1<<63-1
				if step < 0 {
					from, to = 1<<63-1, -1<<63
				}
			}
			for i, x := range []int64{from, to, int64(a - pick(m, 0, rank)), step} {
				lists[i] = append(lists[i], x)
			}
		}
		ty := graph.TensorType(tensor.Int64, graph.Shape{graph.D(count)})
		if m.chance(2) {
			ty.Shape[0] = graph.Sym("K")
		}
		in := []any{anyType(m, shape...), m.feedAs(ty, tensor.From(lists[0], count)), m.feedAs(ty, tensor.From(lists[1], count))}
		for _, l := range lists[2:] {
			if m.chance(3) {
				in = append(in, m.feedAs(ty, tensor.From(l, count)))
			} else {
				in = append(in, m.ints(l...))
			}
		}
		m.sample(m.op("Slice", in...))
	}))

	It("of Slice by attributes agree with the reference kernels", seeds(10, func(m *model) {
		m.version(9)
		x := m.input(m.between(2, 5), m.between(2, 5), 3)
		m.sample(m.op("Slice", x, graph.IntsAttr("starts", int64(m.between(-2, 2)), 1), graph.IntsAttr("ends", 10, -1), graph.IntsAttr("axes", pick(m, []int64{0, 1}, []int64{1, 2}, []int64{2, 0})...)))
	}))

	It("of Expand and Tile agree with the reference kernels", seeds(40, func(m *model) {
		shape := m.shape(m.between(0, 4), 1, 4)
		if m.chance(8) && len(shape) > 0 {
			shape[0] = 0
		}
		x := anyType(m, broadcastTo(m, shape)...)
		target := make([]int64, len(shape))
		for i, d := range shape {
			target[i] = int64(d)
		}
		y := m.op("Expand", x, m.ints(target...))
		repeats := m.int64s(len(shape), 0, 3)
		m.sample(y, m.op("Tile", y, m.ints(repeats...)))
	}))

	It("of Tile of short runs along several axes agree with the reference kernels", seeds(40, func(m *model) {
		d := []int{m.between(1, 6), m.between(1, 5), m.between(1, 5), m.between(1, 5), m.between(1, 9)}[m.between(0, 3):]
		m.sample(m.op("Tile", anyType(m, d...), m.ints(m.int64s(len(d), 1, 3)...)))
	}))

	It("of Expand of columns to long rows agree with the reference kernels", seeds(40, func(m *model) {
		d := []int{m.between(1, 3), m.between(1, 5), m.between(1, 3), m.between(1, 3000)}
		if m.chance(3) {
			d[3] = m.between(14, 18)
		}
		of := []int{d[0], d[1], d[2], 1}
		of[m.between(0, 2)] = 1
		m.sample(m.op("Expand", anyType(m, of...), m.ints(int64s(d)...)))
	}))

	It("of Pad agree with the reference kernels", seeds(60, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 6)
		x := anyType(m, shape...)
		p := m.int64s(2*len(shape), -1, 2)
		for i, d := range shape {
			if int64(d)+p[i]+p[i+len(shape)] < 0 {
				p[i], p[i+len(shape)] = 0, 1
			}
		}
		args := []any{x, m.ints(p...)}
		if m.chance(2) && m.known[x].DType == tensor.Float32 {
			args = append(args, m.given(tensor.Scalar(float32(1.5))))
		}
		m.sample(m.op("Pad", args...))
	}))

	It("of Pad whose value is no single element are others', which refuse it", func(ctx SpecContext) {
		for _, value := range []*tensor.Tensor{tensor.From([]float32{}, 0), tensor.From([]float32{1, 2, 3}, 3)} {
			for _, given := range []func(m *model) *graph.Value{func(m *model) *graph.Value { return m.data(value) }, func(m *model) *graph.Value {
				return m.feedAs(graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("n")}), value)
			}} {
				m := newModel(1)
				x := m.input(3, 4)
				v := given(m)
				n := m.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Pad"}, Name: "pad", Inputs: []*graph.Value{x, m.ints(1, 1, 1, 1), v}, Outputs: []string{"y"}})
				Expect(graph.InferNode(n)).To(Succeed())
				m.g.SetOutputs(n.Outputs...)
				p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
				if err == nil {
					DeferCleanup(p.Close)
					_, err = p.Run(ctx, m.feeds)
				}
				Expect(err).To(MatchError(ContainSubstring("constant_value")))
			}
		}
	})

	It("of Pad with elements of the operand agree with the reference kernels", seeds(60, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 6)
		if last := len(shape) - 1; m.chance(3) {
			shape[last] = m.between(15, 40)
		} else if last > 0 && m.chance(3) { // rows that are short, of matrices that are large or small
			shape[last-1] = m.between(150, 400)
		}
		p := m.int64s(2*len(shape), -1, 8)
		for i, d := range shape {
			if int64(d)+p[i]+p[i+len(shape)] < 0 {
				p[i], p[i+len(shape)] = 0, 1
			}
		}
		m.sample(m.op("Pad", anyType(m, shape...), m.ints(p...), graph.StringAttr("mode", pick(m, "edge", "reflect", "wrap"))))
	}))

	It("of Pad in the blocked layout agree with the reference kernels", seeds(40, func(m *model) {
		c := m.between(1, 33)
		x := m.op("Conv", m.input(m.between(1, 2), 5, m.between(1, 4), m.between(1, 4)), m.constant(c, 5, 1, 1))
		p := []int64{0, 0, int64(m.between(-1, 2)), int64(m.between(-1, 2)), 0, 0, int64(m.between(1, 2)), int64(m.between(1, 2))}
		if m.chance(4) {
			p[1] = 1
		}
		if m.chance(2) {
			p[5] = int64(m.between(-min(1, c-1), 40))
		}
		args := []any{x, m.ints(p...)}
		if m.chance(3) {
			args = append(args, m.given(tensor.Scalar(float32(m.between(0, 1)))))
		}
		y := m.op("Pad", args...)
		m.sample(m.op("Conv", y, m.constant(3, m.known[y].Shape[1], 1, 1)), y)
	}))

	It("of Gather agree with the reference kernels", seeds(30, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 5)
		if m.chance(2) {
			shape[len(shape)-1] = pick(m, 2, 3, 4, 8, 16, 32, m.between(1, 70))
		}
		x := anyType(m, shape...)
		a := m.r.IntN(len(shape))
		idx := make([]int64, m.between(0, 5))
		for i := range idx {
			idx[i] = int64(m.between(-shape[a], shape[a]-1))
		}
		v := m.feed(tensor.From(idx, len(idx)))
		if m.chance(2) {
			v = m.op("Cast", v, to(tensor.Int32))
		}
		m.sample(m.op("Gather", x, v, axis(a-pick(m, 0, len(shape)))))
	}))

	It("of views keep elements, also as outputs, twice and through chains", func() {
		m := newModel(1)
		x := m.input(2, 3, 4)
		y := m.op("Neg", x)
		a := m.op("Reshape", y, m.ints(6, 4))
		b := m.op("Flatten", a, axis(1))
		c := m.op("Unsqueeze", b, m.ints(0))
		d := m.op("Squeeze", c, m.ints(0))
		e := m.op("Identity", d)
		f := m.op("Reshape", x, m.ints(24))
		m.check(y, a, b, c, d, e, f, m.op("Exp", e), m.op("Identity", x))
	})
})

var _ = Describe("an index out of range", func() {
	It("is an error and no fault", func() {
		m := newModel(1)
		x := m.input(3, 2)
		idx := m.feed(tensor.From([]int64{0, 1}, 2))
		m.g.SetOutputs(m.op("Gather", x, idx))
		m.feeds[idx.Name] = tensor.From([]int64{0, 3}, 2)
		for _, w := range ways(true) {
			if err := m.run(w); err == nil {
				Fail("no error")
			}
		}
	})
})
