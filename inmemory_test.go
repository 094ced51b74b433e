package carve_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// bench is a fake device with blocks of the caller's, and what was counted since the last look.
type bench struct {
	*fake.Backend
	device.Device
	last fake.Stats
}

// benchOf returns the first device of a fake backend. When the spec ends nothing may be wrong or left, once the Programs are
// closed: they have to be compiled after this.
func benchOf(o fake.Options) *bench {
	b := fake.New(o)
	DeferCleanup(func() {
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	})
	return &bench{Backend: b, Device: b.Devices()[0]}
}

// on returns a bench of another device of the same backend.
func (b *bench) on(i int) *bench { return &bench{Backend: b.Backend, Device: b.Devices()[i]} }

// block returns n bytes of the device, given back when the spec ends.
func (b *bench) block(n int) device.Memory {
	GinkgoHelper()
	m, err := b.Alloc(int64(n))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { b.Free(m) })
	return m
}

// put copies a compact tensor to the device, off bytes into a block.
func (b *bench) put(ctx context.Context, t *tensor.Tensor, off int) *tensor.Tensor {
	GinkgoHelper()
	m := b.block(off + t.NumBytes())
	Expect(b.CopyTo(ctx, nil, m, int64(off), t.Bytes())).To(Succeed())
	return &tensor.Tensor{DType: t.DType, Shape: t.Shape, Device: b.ID(), Handle: m.Handle, Offset: off}
}

// empty returns a tensor on the device that nobody has written.
func (b *bench) empty(shape ...int) *tensor.Tensor {
	GinkgoHelper()
	t := &tensor.Tensor{DType: tensor.Float32, Shape: shape, Device: b.ID()}
	t.Handle = b.block(t.NumBytes()).Handle
	return t
}

// get returns the floats of a compact tensor on the device.
func (b *bench) get(ctx context.Context, t *tensor.Tensor) []float32 {
	GinkgoHelper()
	out := make([]float32, t.Len())
	Expect(b.CopyFrom(ctx, nil, tensor.From(out).Bytes(), device.MemoryOf(t), int64(t.Offset))).To(Succeed())
	return out
}

// copies is how often something was copied: to the device, from it, and from device to device.
type copies struct{ to, from, between int }

// counted returns the copies since the last look.
func (b *bench) counted() copies {
	s := b.Stats()
	c := copies{s.CopiesTo - b.last.CopiesTo, s.CopiesFrom - b.last.CopiesFrom, s.CopiesBetween - b.last.CopiesBetween}
	b.last = s
	return c
}

// program compiles a model for the benches' backends, in order.
func program(ctx context.Context, text string, o *carve.Options) *carve.Program {
	GinkgoHelper()
	return compile(ctx, textModel(text), o)
}

const squash = `graph {
  opset 17
  input %x: f32[N,8]
  %a = Exp(%x) "exp"
  %y = Tanh(%a) "tanh"
  output %y
}`

// columns is the view of t [n, k] that leaves out its first and last column.
func columns(t *tensor.Tensor) *tensor.Tensor {
	GinkgoHelper()
	v, err := t.Slice(1, 1, t.Shape[1]-1)
	Expect(err).NotTo(HaveOccurred())
	return v
}

// transposed is the view of t [n, k] as [k, n].
func transposed(t *tensor.Tensor) *tensor.Tensor {
	c := *t
	c.Shape, c.Strides = []int{t.Shape[1], t.Shape[0]}, []int{1, t.Shape[1]}
	return &c
}

// expectedOf is what the reference makes of x.
func expectedOf(ctx context.Context, text string, x *tensor.Tensor) []float32 {
	GinkgoHelper()
	return floats(referenceOutputs(ctx, textModel(text), map[string]tensor.Value{"x": x})["y"])
}

var _ = Describe("operands on devices", func() {
	It("are read and written in place", func(ctx SpecContext) {
		b := benchOf(fake.Options{Delay: 100 * time.Microsecond})
		p := program(ctx, squash, withBackends(b.Backend))
		for _, n := range []int{3, 5, 3} {
			want := expectedOf(ctx, squash, wave(n, 8))
			x, y := b.put(ctx, wave(n, 8), 0), b.empty(n, 8)
			b.counted()
			Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y})).To(Succeed())
			Expect(b.counted()).To(Equal(copies{}))
			Expect(b.get(ctx, y)).To(Equal(want))
			Expect(b.get(ctx, x)).To(Equal(floats(wave(n, 8))), "the input is the caller's")

			b.counted()
			out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
			Expect(b.counted()).To(Equal(copies{from: 1}), "the output is wanted on the host")
			Expect(floats(out["y"])).To(Equal(want))

			host := tensor.From(make([]float32, 8*n), n, 8)
			Expect(p.RunInto(ctx, []*tensor.Tensor{wave(n, 8)}, []*tensor.Tensor{host})).To(Succeed())
			Expect(b.counted()).To(Equal(copies{to: 1, from: 1}), "and host tensors as ever")
			Expect(floats(host)).To(Equal(want))
		}
	})

	It("may lie anywhere in a block, inputs twice", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		add := "graph {\n  opset 17\n  input %x: f32[4]\n  input %z: f32[4]\n  %y = Add(%x, %z)\n  output %y\n}"
		p := program(ctx, add, withBackends(b.Backend))
		all := b.put(ctx, tensor.From([]float32{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0}), 4)
		at := func(k int) *tensor.Tensor {
			t := *all
			t.Shape, t.Offset = []int{4}, all.Offset+4*k
			return &t
		}
		Expect(p.RunInto(ctx, []*tensor.Tensor{at(0), at(4)}, []*tensor.Tensor{at(8)})).To(Succeed())
		Expect(b.get(ctx, all)).To(Equal([]float32{1, 2, 3, 4, 5, 6, 7, 8, 6, 8, 10, 12}))
		Expect(p.RunInto(ctx, []*tensor.Tensor{at(0), at(0)}, []*tensor.Tensor{at(8)})).To(Succeed())
		Expect(b.get(ctx, all)[8:]).To(Equal([]float32{2, 4, 6, 8}))
		for _, k := range []int{1, 4, 5} {
			err := p.RunInto(ctx, []*tensor.Tensor{at(0), at(4)}, []*tensor.Tensor{at(k)})
			Expect(err).To(MatchError(carve.ErrOutput))
			Expect(err).To(MatchError(ContainSubstring("overlaps")))
		}
	})

	DescribeTable("with strides are copied once, on the device where that takes few copies, or read in place",
		func(ctx SpecContext, o fake.Options, view func(*tensor.Tensor) *tensor.Tensor, shape []int, want copies) {
			b := benchOf(o)
			p := program(ctx, squash, withBackends(b.Backend))
			x := wave(shape...)
			compact, err := view(x).Clone()
			Expect(err).NotTo(HaveOccurred())
			there := view(b.put(ctx, x, 0))
			for range 2 {
				y := b.empty(compact.Shape...)
				b.counted()
				Expect(p.RunInto(ctx, []*tensor.Tensor{there}, []*tensor.Tensor{y})).To(Succeed())
				Expect(b.counted()).To(Equal(want))
				Expect(b.get(ctx, y)).To(Equal(expectedOf(ctx, squash, compact)))
			}
		},
		Entry("rows apart, copied", fake.Options{}, columns, []int{3, 10}, copies{between: 3}),
		Entry("rows apart, in place", fake.Options{Strided: func(bool, int) bool { return true }}, columns, []int{3, 10}, copies{}),
		Entry("transposed, copied through the host", fake.Options{}, transposed, []int{8, 100}, copies{to: 1, from: 1}),
		Entry("transposed, in place", fake.Options{Strided: func(bool, int) bool { return true }}, transposed, []int{8, 100}, copies{}),
	)

	DescribeTable("with strides are written in place, or copied row by row", func(ctx SpecContext, strided bool, want copies) {
		o := fake.Options{}
		if strided {
			o.Strided = func(bool, int) bool { return true }
		}
		b := benchOf(o)
		p := program(ctx, squash, withBackends(b.Backend))
		whole := b.put(ctx, tensor.From(make([]float32, 30), 3, 10), 0)
		x := b.put(ctx, wave(3, 8), 0)
		b.counted()
		Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{columns(whole)})).To(Succeed())
		Expect(b.counted()).To(Equal(want))
		got, exp := b.get(ctx, whole), expectedOf(ctx, squash, wave(3, 8))
		for i, v := range got {
			if k := i % 10; k == 0 || k == 9 {
				Expect(v).To(BeZero(), "what lies between the rows is not the output's")
			} else {
				Expect(v).To(Equal(exp[i/10*8+k-1]))
			}
		}
	}, Entry("in place", true, copies{}), Entry("copied", false, copies{between: 3}))

	It("of an alignment that a port does not take are copied once", func(ctx SpecContext) {
		b := benchOf(fake.Options{Align: 64})
		p := program(ctx, squash, withBackends(b.Backend))
		want := expectedOf(ctx, squash, wave(3, 8))
		for off, n := range map[int]copies{4: {between: 1}, 128: {}} {
			x, y := b.put(ctx, wave(3, 8), off), b.empty(3, 8)
			b.counted()
			Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y})).To(Succeed())
			Expect(b.counted()).To(Equal(n))
			Expect(b.get(ctx, y)).To(Equal(want))
			Expect(p.RunInto(ctx, []*tensor.Tensor{y}, []*tensor.Tensor{x})).To(Succeed())
			Expect(b.counted().between).To(Equal(n.between), "and so is the output")
		}
	})

	It("that an instance turns down when it is asked are copied once, then and in later runs", func(ctx SpecContext) {
		var asked atomic.Int32
		b := benchOf(fake.Options{Strided: func(output bool, _ int) bool {
			if !output {
				asked.Add(1)
			}
			return output
		}})
		p := program(ctx, squash, withBackends(b.Backend))
		x, whole := wave(3, 10), b.put(ctx, wave(3, 10), 0)
		compact, err := columns(x).Clone()
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			y := b.empty(3, 8)
			b.counted()
			Expect(p.RunInto(ctx, []*tensor.Tensor{columns(whole)}, []*tensor.Tensor{y})).To(Succeed())
			Expect(b.counted()).To(Equal(copies{between: 3}))
			Expect(b.get(ctx, y)).To(Equal(expectedOf(ctx, squash, compact)))
		}
		Expect(asked.Load()).To(BeEquivalentTo(1), "it is remembered")
		Expect(b.Stats().Runs).To(Equal(3), "and no fallback ran")
		Expect(p.Retry()).To(BeZero())
	})

	It("that an instance turns down as outputs are written elsewhere and copied", func(ctx SpecContext) {
		b := benchOf(fake.Options{Strided: func(output bool, _ int) bool { return !output }})
		p := program(ctx, squash, withBackends(b.Backend))
		whole := b.put(ctx, tensor.From(make([]float32, 30), 3, 10), 0)
		for range 2 {
			b.counted()
			Expect(p.RunInto(ctx, []*tensor.Tensor{wave(3, 8)}, []*tensor.Tensor{columns(whole)})).To(Succeed())
			Expect(b.counted()).To(Equal(copies{to: 1, between: 3}))
			Expect(b.get(ctx, whole)[1:9]).To(Equal(expectedOf(ctx, squash, wave(3, 8))[:8]))
		}
		Expect(b.Stats().Runs).To(Equal(2))
	})

	It("are converted once where a group on another processor reads or makes them", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		o := withBackends(part{b.Backend, []string{"Exp"}})
		o.Backends = append(o.Backends, backend.Config{Name: "cpu"})
		both := "graph {\n  opset 17\n  input %x: f32[N,8]\n  %a = Exp(%x)\n  %b = Neg(%x)\n  %y = Add(%a, %b)\n  output %y\n}"
		p := program(ctx, both, o)
		x, y := b.put(ctx, wave(2, 8), 0), b.empty(2, 8)
		want := expectedOf(ctx, both, wave(2, 8))
		b.counted()
		Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y})).To(Succeed())
		Expect(b.counted()).To(Equal(copies{from: 2, to: 1}), "the input for cpu, what the device made, and the output")
		for i, v := range b.get(ctx, y) {
			Expect(v).To(BeNumerically("~", want[i], 1e-5))
		}
	})

	DescribeTable("on another device are copied over once", func(ctx SpecContext, noPeers bool, want copies) {
		b := benchOf(fake.Options{Devices: 2, NoPeers: noPeers})
		p := program(ctx, squash, withBackends(b.Backend))
		other := b.on(1)
		x, y := other.put(ctx, wave(2, 8), 0), other.empty(2, 8)
		for range 2 {
			b.counted()
			Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y})).To(Succeed())
			Expect(b.counted()).To(Equal(want))
			Expect(other.get(ctx, y)).To(Equal(expectedOf(ctx, squash, wave(2, 8))))
		}
	}, Entry("by their own copies", false, copies{between: 2}), Entry("through the host", true, copies{to: 2, from: 2}))

	It("are outputs as well as inputs where a model hands them on", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		text := "graph {\n  opset 17\n  input %x: f32[4]\n  %y = Exp(%x)\n  output %x\n  output %y\n  output %y\n}"
		g, err := graph.Parse(text)
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		p := compile(ctx, m, withBackends(b.Backend))
		x := b.put(ctx, wave(4), 0)
		y := []*tensor.Tensor{b.empty(4), b.empty(4), b.empty(4)}
		Expect(p.RunInto(ctx, []*tensor.Tensor{x}, y)).To(Succeed())
		Expect(b.get(ctx, y[0])).To(Equal(floats(wave(4))))
		Expect(b.get(ctx, y[1])).To(Equal(b.get(ctx, y[2])))
		Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{nil, nil, nil})).To(Succeed())
	})

	It("are left on a device by Run where Options say so", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		o := withBackends(b.Backend)
		o.OutputDevices = map[string]tensor.DeviceID{"y": b.ID()}
		p := program(ctx, squash, o)
		b.counted()
		out, err := p.Run(ctx, map[string]tensor.Value{"x": wave(3, 8)})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.counted()).To(Equal(copies{to: 1}))
		y, ok := out["y"].(*carve.Formatted)
		Expect(ok).To(BeTrue())
		Expect(y.Device).To(Equal(b.ID()))
		Expect(y.Ready).To(BeNil(), "it is there when Run returns")
		again, err := p.Run(ctx, map[string]tensor.Value{"x": y})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.counted()).To(Equal(copies{}))
		z := again["y"].(*carve.Formatted)
		twice, err := tensor.New(tensor.Float32, 3, 8)
		Expect(err).NotTo(HaveOccurred())
		copy(floats(twice), expectedOf(ctx, squash, wave(3, 8)))
		Expect(b.get(ctx, z.Tensor)).To(Equal(expectedOf(ctx, squash, twice)))
		for range 2 {
			y.Release()
			z.Release()
		}
		d, err := p.Check(ctx, map[string]tensor.Value{"x": wave(3, 8)})
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())
	})

	DescribeTable("that do not fit are errors that name them", func(ctx SpecContext, spoil func(*bench, *carve.Formatted), problem string) {
		b := benchOf(fake.Options{})
		p := program(ctx, squash, withBackends(b.Backend))
		for _, output := range []bool{false, true} {
			x, y := &carve.Formatted{Tensor: b.put(ctx, wave(2, 8), 0)}, &carve.Formatted{Tensor: b.empty(2, 8)}
			name, cause := "x", carve.ErrInput
			if output {
				spoil(b, y)
				name, cause = "y", carve.ErrOutput
			} else {
				spoil(b, x)
			}
			_, err := p.Enqueue(ctx, []*carve.Formatted{x}, []*carve.Formatted{y})
			Expect(err).To(MatchError(cause))
			var e *carve.InputError
			Expect(errors.As(err, &e)).To(BeTrue())
			Expect(e.Name).To(Equal(name))
			Expect(err).To(MatchError(ContainSubstring(problem)))
		}
	},
		Entry("on a device that nobody has", func(_ *bench, f *carve.Formatted) { f.Device = tensor.DeviceID{Type: tensor.CUDA, Index: 3} }, "no backend"),
		Entry("in a layout that nobody knows", func(_ *bench, f *carve.Formatted) {
			l, err := graph.OpaqueLayout("nobody", "1", "k")
			Expect(err).NotTo(HaveOccurred())
			f.Layout = l
		}, "opaque"),
		Entry("in a layout of another rank", func(_ *bench, f *carve.Formatted) { f.Layout = graph.NCHW16c }, "layout"),
		Entry("with a negative stride", func(_ *bench, f *carve.Formatted) { f.Strides = []int{-8, 1} }, "stride"),
		Entry("with strides beyond all memory", func(_ *bench, f *carve.Formatted) { f.Strides = []int{1 << 60, 1} }, "stride"),
		Entry("with strides of another rank", func(_ *bench, f *carve.Formatted) { f.Strides = []int{1} }, "stride"),
		Entry("before the block", func(_ *bench, f *carve.Formatted) { f.Offset = -4 }, "offset"),
		Entry("of another shape", func(_ *bench, f *carve.Formatted) { f.Shape = []int{2, 7} }, "shape"),
		Entry("of another dtype", func(_ *bench, f *carve.Formatted) { f.DType = tensor.Int32 }, "dtype"),
	)

	It("are missing without a tensor, which outputs may be", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		p := program(ctx, squash, withBackends(b.Backend))
		for _, none := range []*carve.Formatted{nil, {}} {
			_, err := p.Enqueue(ctx, []*carve.Formatted{none}, []*carve.Formatted{none})
			Expect(err).To(And(MatchError(carve.ErrInput), MatchError(ContainSubstring("missing"))))
			_, err = p.Run(ctx, map[string]tensor.Value{"x": none})
			Expect(err).To(MatchError(carve.ErrInput))
			e, err := p.Enqueue(ctx, []*carve.Formatted{{Tensor: b.put(ctx, wave(2, 8), 0)}}, []*carve.Formatted{none})
			Expect(err).NotTo(HaveOccurred())
			Expect(e.Wait(ctx)).To(Succeed())
			e.Close()
		}
	})

	It("that options name for outputs have to exist", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		o := withBackends(b.Backend)
		for name, id := range map[string]tensor.DeviceID{"z": b.ID(), "y": {Type: tensor.CUDA}} {
			o.OutputDevices = map[string]tensor.DeviceID{name: id}
			_, err := carve.Compile(ctx, textModel(squash), o)
			Expect(err).To(MatchError(carve.ErrOutput))
			var e *carve.InputError
			Expect(errors.As(err, &e)).To(BeTrue())
			Expect(e.Name).To(Equal(name))
		}
	})
})

var _ = Describe("events of operands", func() {
	// late copies x to the device on a stream of the caller's, slowly, and returns the event of its end.
	late := func(ctx context.Context, b *bench, x *tensor.Tensor) *carve.Formatted {
		GinkgoHelper()
		s, err := b.NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(s.Close()).To(Succeed()) })
		t := b.empty(x.Shape...)
		Expect(b.CopyTo(ctx, s, device.MemoryOf(t), 0, x.Bytes())).To(Succeed())
		e, err := s.Record()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(e.Close)
		return &carve.Formatted{Tensor: t, Ready: e}
	}

	It("are waited for by the streams that read an input, and not by the host", func(ctx SpecContext) {
		b := benchOf(fake.Options{Delay: 5 * time.Millisecond, Seed: 3})
		p := program(ctx, squash, withBackends(b.Backend))
		want := expectedOf(ctx, squash, wave(3, 8))
		for range 5 {
			x := late(ctx, b, wave(3, 8))
			out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
			Expect(floats(out["y"])).To(Equal(want))

			x, y := late(ctx, b, wave(3, 8)), &carve.Formatted{Tensor: b.empty(3, 8)}
			waits := b.Stats().Waits
			e, err := p.Enqueue(ctx, []*carve.Formatted{x}, []*carve.Formatted{y})
			Expect(err).NotTo(HaveOccurred())
			Expect(b.Stats().Waits).To(Equal(waits))
			Expect(e.Wait(ctx)).To(Succeed())
			e.Close()
			Expect(b.get(ctx, y.Tensor)).To(Equal(want))
		}
	})

	It("are waited for by the host where it reads the input", func(ctx SpecContext) {
		b := benchOf(fake.Options{Delay: 3 * time.Millisecond})
		o := withBackends(part{b.Backend, []string{"Tanh"}})
		o.Backends = append(o.Backends, backend.Config{Name: "cpu"})
		p := program(ctx, squash, o)
		x := late(ctx, b, wave(3, 8))
		out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
		Expect(err).NotTo(HaveOccurred())
		near(out["y"], tensor.From(expectedOf(ctx, squash, wave(3, 8)), 3, 8))
	})

	It("are waited for before an output is written", func(ctx SpecContext) {
		b := benchOf(fake.Options{Delay: 3 * time.Millisecond, Seed: 5})
		p := program(ctx, squash, withBackends(b.Backend))
		for range 5 {
			y := late(ctx, b, wave(3, 8)) // whoever had the storage before is not done with it
			e, err := p.Enqueue(ctx, []*carve.Formatted{{Tensor: b.put(ctx, wave(3, 8), 0)}}, []*carve.Formatted{y})
			Expect(err).NotTo(HaveOccurred())
			Expect(e.Wait(ctx)).To(Succeed())
			e.Close()
			Expect(b.get(ctx, y.Tensor)).To(Equal(expectedOf(ctx, squash, wave(3, 8))))
		}
	})

	It("of outputs let runs follow each other without the host", func(ctx SpecContext) {
		b := benchOf(fake.Options{Delay: 2 * time.Millisecond})
		p := program(ctx, squash, withBackends(b.Backend))
		sessions := make([]*carve.Session, 4)
		for i := range sessions {
			s, err := p.NewSession()
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(s.Close)
			sessions[i] = s
			Expect(s.RunInto(ctx, []*tensor.Tensor{wave(3, 8)}, []*tensor.Tensor{b.empty(3, 8)})).To(Succeed())
		}
		x, want := &carve.Formatted{Tensor: b.put(ctx, wave(3, 8), 0)}, wave(3, 8)
		waits := b.Stats().Waits
		var events []device.Event
		for _, s := range sessions {
			y := &carve.Formatted{Tensor: b.empty(3, 8)}
			e, err := s.Enqueue(ctx, []*carve.Formatted{x}, []*carve.Formatted{y})
			Expect(err).NotTo(HaveOccurred())
			y.Ready = e
			events = append(events, e)
			x, want = y, tensor.From(expectedOf(ctx, squash, want), 3, 8)
		}
		Expect(b.Stats().Waits).To(Equal(waits))
		Expect(x.Ready.Wait(ctx)).To(Succeed())
		for _, e := range events {
			e.Close()
		}
		Expect(b.get(ctx, x.Tensor)).To(Equal(floats(want)))
	})

	It("of a session's run are waited for by its next", func(ctx SpecContext) {
		b := benchOf(fake.Options{Delay: 2 * time.Millisecond})
		o := withBackends(b.Backend)
		o.MaxSessions = 1
		p := program(ctx, squash, o)
		want := expectedOf(ctx, squash, wave(3, 8))
		for range 4 {
			host := &carve.Formatted{Tensor: tensor.From(make([]float32, 24), 3, 8)}
			e, err := p.Enqueue(ctx, []*carve.Formatted{{Tensor: wave(3, 8)}}, []*carve.Formatted{host})
			Expect(err).NotTo(HaveOccurred())
			out, err := p.Run(ctx, map[string]tensor.Value{"x": wave(3, 8)})
			Expect(err).NotTo(HaveOccurred())
			Expect(floats(out["y"])).To(Equal(want))
			done, err := e.Done()
			Expect(done, err).To(BeTrue())
			e.Close()
			Expect(floats(host.Tensor)).To(Equal(want))
		}
		e, err := p.Enqueue(ctx, []*carve.Formatted{{Tensor: wave(3, 8)}}, []*carve.Formatted{{Tensor: b.empty(3, 8)}})
		Expect(err).NotTo(HaveOccurred())
		e.Close() // and by Close of the Program
	})

	It("that fail make the run fail with their error", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		p := program(ctx, squash, withBackends(b.Backend))
		broken := errors.New("broken")
		for _, when := range []string{"before", "after"} {
			e := device.NewEvent()
			x := &carve.Formatted{Tensor: b.put(ctx, wave(2, 8), 0), Ready: e}
			if when == "before" {
				e.Complete(broken)
			} else {
				time.AfterFunc(5*time.Millisecond, func() { e.Complete(broken) })
			}
			_, err := p.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).To(MatchError(broken))
			var step *carve.StepError
			Expect(errors.As(err, &step)).To(BeTrue())
			Expect(step.Nodes).To(Equal([]string{"x"}))
			y := &carve.Formatted{Tensor: b.empty(2, 8)}
			end, err := p.Enqueue(ctx, []*carve.Formatted{x}, []*carve.Formatted{y})
			Expect(err).NotTo(HaveOccurred())
			Expect(end.Wait(ctx)).To(MatchError(broken))
			end.Close()
		}
		Expect(p.Retry()).To(BeZero(), "it is no group's fault")
		_, err := p.Run(ctx, map[string]tensor.Value{"x": &carve.Formatted{Tensor: wave(2, 8)}})
		Expect(err).NotTo(HaveOccurred())
	})

	It("that never happen end with the context", func(ctx SpecContext) {
		b := benchOf(fake.Options{})
		o := withBackends(part{b.Backend, []string{"Tanh"}})
		o.Backends = append(o.Backends, backend.Config{Name: "cpu"})
		p := program(ctx, squash, o)
		ended, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		_, err := p.Run(ended, map[string]tensor.Value{"x": &carve.Formatted{Tensor: wave(2, 8), Ready: device.NewEvent()}})
		Expect(err).To(MatchError(context.DeadlineExceeded))
	})

	It("tell of groups that fail late, which fall back from then on", func(ctx SpecContext) {
		b := benchOf(fake.Options{Fail: fake.FailNth(fake.LateLaunch, 1)})
		p := program(ctx, squash, withBackends(b.Backend))
		x, y := &carve.Formatted{Tensor: b.put(ctx, wave(2, 8), 0)}, &carve.Formatted{Tensor: b.empty(2, 8)}
		want := expectedOf(ctx, squash, wave(2, 8))
		for i, fails := range []bool{false, true, false} {
			e, err := p.Enqueue(ctx, []*carve.Formatted{x}, []*carve.Formatted{y})
			Expect(err).NotTo(HaveOccurred())
			if fails {
				Expect(e.Wait(ctx)).To(MatchError(fake.ErrInjected), "run %d", i)
			} else {
				Expect(e.Wait(ctx)).To(Succeed(), "run %d", i)
				Expect(b.get(ctx, y.Tensor)).To(Equal(want))
			}
			e.Close()
		}
		Expect(p.Retry()).To(Equal(1))
	})
})

var _ = Describe("operands on devices that fail", func() {
	DescribeTable("have the run done again from the caller's inputs", func(ctx SpecContext, op fake.Op) {
		b := benchOf(fake.Options{Fail: fake.FailNth(op, 0), Strided: func(bool, int) bool { return true }})
		p := program(ctx, squash, withBackends(b.Backend))
		x, whole := wave(3, 10), b.put(ctx, wave(3, 10), 0)
		compact, err := columns(x).Clone()
		Expect(err).NotTo(HaveOccurred())
		want := expectedOf(ctx, squash, compact)
		out := b.put(ctx, tensor.From(make([]float32, 30), 3, 10), 0)
		for range 2 {
			Expect(p.RunInto(ctx, []*tensor.Tensor{columns(whole)}, []*tensor.Tensor{columns(out)})).To(Succeed())
			Expect(b.get(ctx, out)[11:19]).To(Equal(want[8:16]))
		}
		Expect(p.Retry()).To(Equal(1))
		Expect(p.RunInto(ctx, []*tensor.Tensor{columns(whole)}, []*tensor.Tensor{columns(out)})).To(Succeed())
		Expect(b.get(ctx, out)[11:19]).To(Equal(want[8:16]))
	}, Entry("at once", fake.Launch), Entry("late", fake.LateLaunch))

	It("give right results or typed errors, and leak nothing", func(ctx SpecContext) {
		failed, right := 0, 0
		for seed := range uint64(60) {
			b := fake.New(fake.Options{Devices: 2, Seed: seed, Delay: 30 * time.Microsecond, NoPeers: seed%3 == 0, Align: int64(seed%2) * 64,
				Strided: func(_ bool, k int) bool { return seed%5 > 2 && k == 0 }})
			f, r := operandsOf(ctx, b, seed)
			failed, right = failed+f, right+r
		}
		Expect(failed).To(BeZero(), "nothing was made to fail")
		for seed := range uint64(60) {
			b := fake.New(fake.Options{Devices: 2, Seed: seed, Delay: 30 * time.Microsecond, NoPeers: seed%3 == 0, Align: int64(seed%2) * 64,
				Strided: func(_ bool, k int) bool { return seed%5 > 2 && k == 0 }, Fail: fake.FailSome(seed, 0.01)})
			f, r := operandsOf(ctx, b, seed+1000)
			failed, right = failed+f, right+r
		}
		Expect(failed).To(BeNumerically(">", 0))
		Expect(right).To(BeNumerically(">", failed))
		AddReportEntry("runs", fmt.Sprintf("%d right, %d failed", right, failed))
	})
})
