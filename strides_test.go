package carve_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/graph/tensor/dlpack"
	"github.com/carve-dev/carve/internal/dl"
)

// looker is a backend of the host, with the reference's kernels, that notes how its operands lie.
type looker struct {
	backend.Backend
	use     backend.PortUse // what its ports take
	refuses bool            // what has strides, when it is asked
	inputs  [][]lie         // per run
	outputs [][]lie
}

// lie is how an operand lies.
type lie struct {
	at      uintptr
	strides []int
}

func newLooker(use backend.PortUse, refuses bool) *looker {
	return &looker{Backend: &reference.Backend{Name: "looker"}, use: use, refuses: refuses}
}

func (l *looker) Info() backend.Info { return backend.Info{Name: "looker", Version: "1"} }

func (l *looker) Compile(ctx context.Context, g *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := l.Backend.Compile(ctx, g, o)
	return &lookerExecutable{e, l}, err
}

type lookerExecutable struct {
	backend.Executable
	l *looker
}

func (e *lookerExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	in, err := e.Executable.Specialize(ctx, b)
	return &lookerInstance{in, e.l}, err
}

type lookerInstance struct {
	backend.Instance
	l *looker
}

func (in *lookerInstance) Requirements() backend.Requirements {
	r := in.Instance.Requirements()
	r.Inputs, r.Outputs = slices.Clone(r.Inputs), slices.Clone(r.Outputs)
	for _, ports := range [][]backend.PortUse{r.Inputs, r.Outputs} {
		for i := range ports {
			ports[i].Strided, ports[i].Align = in.l.use.Strided, in.l.use.Align
		}
	}
	return r
}

func (in *lookerInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	look := func(list []*tensor.Tensor) (out []lie) {
		for _, t := range list {
			out = append(out, lie{uintptr(unsafe.Pointer(&t.Data[t.Offset])), t.Strides})
		}
		return out
	}
	in.l.inputs, in.l.outputs = append(in.l.inputs, look(a.Inputs)), append(in.l.outputs, look(a.Outputs))
	b := *a
	b.Inputs, b.Outputs, b.Local = slices.Clone(a.Inputs), slices.Clone(a.Outputs), nil
	for i, t := range b.Inputs {
		if t.IsCompact() {
			continue
		}
		if in.l.refuses || !in.l.use.Strided {
			return nil, &backend.ContiguousError{Operand: i}
		}
		var err error
		if b.Inputs[i], err = t.Clone(); err != nil {
			return nil, err
		}
	}
	for i, t := range b.Outputs {
		if t.IsCompact() {
			continue
		}
		if in.l.refuses {
			return nil, &backend.ContiguousError{Output: true, Operand: i}
		}
		out, err := tensor.New(t.DType, t.Shape...)
		if err != nil {
			return nil, err
		}
		b.Outputs[i] = out
		defer func() {
			for k, x := range floats(out) {
				n := t.Shape[1]
				*(*float32)(unsafe.Pointer(&t.Data[t.Offset+4*(k/n*t.Strides[0]+k%n*t.Strides[1])])) = x
			}
		}()
	}
	return in.Instance.Enqueue(ctx, &b)
}

func addressOf(t *tensor.Tensor) uintptr { return uintptr(unsafe.Pointer(&t.Data[t.Offset])) }

var _ = Describe("host tensors with strides", func() {
	DescribeTable("are read and written in place by groups that take them, and compact ones made once for others",
		func(ctx SpecContext, use backend.PortUse, refuses, inPlace bool, runs int) {
			l := newLooker(use, refuses)
			p := program(ctx, squash, withBackends(l))
			x := wave(3, 10)
			compact, err := columns(x).Clone()
			Expect(err).NotTo(HaveOccurred())
			want := expectedOf(ctx, squash, compact)
			whole := tensor.From(make([]float32, 30), 3, 10)
			for range 3 {
				Expect(p.RunInto(ctx, []*tensor.Tensor{columns(x)}, []*tensor.Tensor{columns(whole)})).To(Succeed())
				for i, v := range floats(whole) {
					if k := i % 10; k > 0 && k < 9 {
						Expect(v).To(Equal(want[i/10*8+k-1]))
					} else {
						Expect(v).To(BeZero())
					}
				}
			}
			Expect(l.inputs).To(HaveLen(runs))
			last, out := l.inputs[runs-1][0], l.outputs[runs-1][0]
			if inPlace {
				Expect(last).To(Equal(lie{addressOf(columns(x)), []int{10, 1}}))
				Expect(out).To(Equal(lie{addressOf(columns(whole)), []int{10, 1}}))
				return
			}
			Expect(last.strides).To(BeNil())
			Expect(out.strides).To(BeNil())
			Expect(last).To(Equal(l.inputs[runs-2][0]), "the compact copy has memory of its own, which is kept")
			Expect(p.Retry()).To(BeZero())
		},
		Entry("in place", backend.PortUse{Strided: true}, false, true, 3),
		Entry("compact", backend.PortUse{}, false, false, 3),
		Entry("turned down when the group is asked, once each", backend.PortUse{Strided: true}, true, false, 5),
	)

	It("that are compact have the alignment that a port asks for", func(ctx SpecContext) {
		l := newLooker(backend.PortUse{Align: 64}, false)
		p := program(ctx, squash, withBackends(l))
		storage, out := wave(1, 100), tensor.From(make([]float32, 100), 1, 100)
		at := func(t *tensor.Tensor, off int) *tensor.Tensor {
			c := *t
			c.Shape, c.Offset = []int{3, 8}, (64-int(addressOf(t)%64))%64+off
			return &c
		}
		for _, off := range []int{0, 4} {
			x, y := at(storage, off), at(out, off)
			Expect(p.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y})).To(Succeed())
			compact, err := x.Clone()
			Expect(err).NotTo(HaveOccurred())
			Expect(floats(y)).To(Equal(expectedOf(ctx, squash, compact)))
			in, res := l.inputs[len(l.inputs)-1][0], l.outputs[len(l.outputs)-1][0]
			Expect([]uintptr{in.at % 64, res.at % 64}).To(HaveEach(BeZero()))
			if off == 0 {
				Expect(in.at).To(Equal(addressOf(x)))
				Expect(res.at).To(Equal(addressOf(y)))
			} else {
				Expect(in.at).NotTo(Equal(addressOf(x)))
				Expect(res.at).NotTo(Equal(addressOf(y)))
			}
		}
	})

	It("are read by the conversion to another layout as they lie", func(ctx SpecContext) {
		p := program(ctx, images, nil)
		row := wave(2, 16, 8, 12) // a picture whose rows are padded
		view, err := row.Slice(3, 0, 8)
		Expect(err).NotTo(HaveOccurred())
		compact, err := view.Clone()
		Expect(err).NotTo(HaveOccurred())
		channelsLast := &tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 16, 8, 8}, Strides: []int{1024, 1, 128, 16}, Data: wave(2048).Data}
		last, err := channelsLast.Clone()
		Expect(err).NotTo(HaveOccurred())
		for _, x := range [][2]*tensor.Tensor{{view, compact}, {channelsLast, last}} {
			out, err := p.Run(ctx, map[string]tensor.Value{"x": x[0]})
			Expect(err).NotTo(HaveOccurred())
			near(out["y"], referenceOutputs(ctx, textModel(images), map[string]tensor.Value{"x": x[1]})["y"])
		}
	})
})

var images = `graph {
  opset 17
  input %x: f32[N,16,8,8]
  ` + constant("w", 16, 16, 3, 3) + `
  ` + constant("v", 16, 16, 3, 3) + `
  %a = Conv(%x, %w; pads=[1, 1, 1, 1])
  %b = Relu(%a)
  %y = Conv(%b, %v; pads=[1, 1, 1, 1])
  output %y
}`

var _ = Describe("operands in other layouts", func() {
	// blocked returns x as NCHW16c.
	blocked := func(ctx context.Context, x *tensor.Tensor, from, to graph.Layout) *tensor.Tensor {
		GinkgoHelper()
		move, err := convert.PlanHost(from, to, x.DType, x.Shape)
		Expect(err).NotTo(HaveOccurred())
		out := &tensor.Tensor{DType: x.DType, Shape: x.Shape, Data: make([]byte, x.NumBytes())}
		Expect(move(ctx, out, x, convert.Exec{})).To(Succeed())
		return out
	}

	It("are read and written without a conversion by who works in them", func(ctx SpecContext) {
		p := program(ctx, images, nil)
		x := wave(2, 16, 8, 8)
		want := referenceOutputs(ctx, textModel(images), map[string]tensor.Value{"x": x})["y"]
		conversions := func(v tensor.Value) int {
			out, prof, err := p.RunProfiled(ctx, map[string]tensor.Value{"x": v})
			Expect(err).NotTo(HaveOccurred())
			near(out["y"], want)
			n := 0
			for _, s := range prof.Spans {
				if s.Op == "Convert" {
					n++
				}
			}
			return n
		}
		in := &carve.Formatted{Tensor: blocked(ctx, x, graph.RowMajor, graph.NCHW16c), Layout: graph.NCHW16c}
		Expect(conversions(x)).To(Equal(2), "of the input and of the output")
		Expect(conversions(in)).To(Equal(1))
		for _, l := range []graph.Layout{graph.NCHW16c, graph.NHWC} {
			in := &carve.Formatted{Tensor: blocked(ctx, x, graph.RowMajor, l), Layout: l}
			out := &carve.Formatted{Tensor: &tensor.Tensor{DType: x.DType, Shape: x.Shape, Data: make([]byte, x.NumBytes())}, Layout: l}
			e, err := p.Enqueue(ctx, []*carve.Formatted{in}, []*carve.Formatted{out})
			Expect(err).NotTo(HaveOccurred())
			done, err := e.Done()
			Expect(done, err).To(BeTrue(), "the host does it all")
			e.Close()
			near(blocked(ctx, out.Tensor, l, graph.RowMajor), want)
		}
	})

	It("are read and written in place on a device", func(ctx SpecContext) {
		kernels, err := cpu.Open(backend.Config{Name: "cpu"})
		Expect(err).NotTo(HaveOccurred())
		weights, err := graph.ParseLayout("ABcd16b16a")
		Expect(err).NotTo(HaveOccurred())
		b := benchOf(fake.Options{Kernels: kernels, Layouts: []graph.Layout{graph.NCHW16c, weights}})
		p := program(ctx, images, withBackends(b.Backend))
		x := wave(2, 16, 8, 8)
		want := referenceOutputs(ctx, textModel(images), map[string]tensor.Value{"x": x})["y"]
		near(must(p.Run(ctx, map[string]tensor.Value{"x": x}))["y"], want)
		in := &carve.Formatted{Tensor: b.put(ctx, blocked(ctx, x, graph.RowMajor, graph.NCHW16c), 0), Layout: graph.NCHW16c}
		out := &carve.Formatted{Tensor: b.empty(2, 16, 8, 8), Layout: graph.NCHW16c}
		b.counted()
		e, err := p.Enqueue(ctx, []*carve.Formatted{in}, []*carve.Formatted{out})
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Wait(ctx)).To(Succeed())
		e.Close()
		n := b.counted()
		Expect(n).To(Equal(copies{}))
		got := &tensor.Tensor{DType: x.DType, Shape: x.Shape, Data: tensor.From(b.get(ctx, out.Tensor)).Data}
		near(blocked(ctx, got, graph.NCHW16c, graph.RowMajor), want)
	})
})

func must[T any](v T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return v
}

// producer is the C side of package dlpack's specs, built once.
var producer = sync.OnceValues(func() (*dl.Library, error) {
	dir, err := os.MkdirTemp("", "dlpack")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "producer.so")
	source := filepath.Join("graph", "tensor", "dlpack", "testdata", "producer.c")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-pthread", "-o", name, source).CombinedOutput(); err != nil {
		AddReportEntry("gcc", string(out))
		return nil, err
	}
	DeferCleanup(os.RemoveAll, dir)
	return dl.Open(name)
})

// inC calls a function of the producer; without a C compiler the spec is skipped.
//
//go:uintptrescapes
func inC(name string, args ...uintptr) uintptr {
	GinkgoHelper()
	if !dl.Supported {
		Skip("no libraries on this platform")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		Skip("no gcc to build the C side with: " + err.Error())
	}
	l, err := producer()
	Expect(err).NotTo(HaveOccurred())
	fn, err := l.Symbol(name)
	Expect(err).NotTo(HaveOccurred())
	return dl.Call(fn, args...)
}

var _ = Describe("tensors of C code, by DLPack", func() {
	const bytes = `graph {
  opset 17
  input %x: u8[N,4]
  %a = Cast(%x; to = 1)
  %y = Sqrt(%a)
  output %y
}`
	// made returns a tensor of 32 bytes, 0 to 31, that C code made: [rows, 4], a stride of pitch bytes apart.
	made := func(rows, pitch, step int64) (*dlpack.Imported, uintptr) {
		GinkgoHelper()
		r := struct {
			code, bits, ndim, hasStrides, byteOffset, flags, major, deviceType int64
			shape, strides                                                     [8]int64
			bytes, start                                                       int64
		}{code: 1, bits: 8, ndim: 2, hasStrides: 1, major: 1, deviceType: 1, shape: [8]int64{rows, 4}, strides: [8]int64{pitch, step}, bytes: 32}
		p := inC("make_versioned", uintptr(unsafe.Pointer(&r)))
		m := (*dlpack.Versioned)(*(*unsafe.Pointer)(unsafe.Pointer(&p)))
		at := m.Tensor.Data + uintptr(m.Tensor.ByteOffset)
		return must(dlpack.Import(m)), at
	}

	DescribeTable("are read in place by a Program, or converted once, and given back once",
		func(ctx SpecContext, rows, pitch, step int64, takesStrides, inPlace bool) {
			before := inC("count_deleted")
			l := newLooker(backend.PortUse{Strided: takesStrides}, false)
			p := program(ctx, bytes, withBackends(l))
			in, at := made(rows, pitch, step)
			compact := must(in.Tensor().Clone())
			for range 2 {
				out := must(p.Run(ctx, map[string]tensor.Value{"x": in.Tensor()}))
				Expect(floats(out["y"])).To(Equal(expectedOf(ctx, bytes, compact)))
			}
			Expect(l.inputs).To(HaveLen(2))
			if inPlace {
				Expect(l.inputs[1][0].at).To(Equal(at))
			} else {
				Expect(l.inputs[1][0].at).NotTo(Equal(at))
			}
			Expect(inC("count_deleted")).To(Equal(before))
			Expect(in.Close()).To(Succeed())
			Expect(inC("count_deleted")).To(Equal(before + 1))
		},
		Entry("compact", int64(8), int64(4), int64(1), false, true),
		Entry("rows apart, to who takes strides", int64(4), int64(8), int64(1), true, true),
		Entry("rows apart, to who does not", int64(4), int64(8), int64(1), false, false),
		Entry("transposed, to who takes strides", int64(8), int64(1), int64(8), true, true),
		Entry("transposed, to who does not", int64(8), int64(1), int64(8), false, false),
		Entry("a row again and again", int64(8), int64(0), int64(1), false, false),
	)

	It("are given results without a copy", func(ctx SpecContext) {
		p := program(ctx, squash, nil)
		x := tensor.From(make([]float32, 16), 2, 8)
		for i := range floats(x) {
			floats(x)[i] = 100 // its Tanh(Exp(x)) is 1
		}
		y := must(p.Run(ctx, map[string]tensor.Value{"x": x}))["y"].(*tensor.Tensor)
		released := 0
		m := must(dlpack.Export(y, &dlpack.ExportOptions{Release: func() { released++ }}))
		Expect(m.Tensor.Data).To(Equal(addressOf(y)))
		Expect(inC("weigh_versioned", uintptr(unsafe.Pointer(m)))).To(BeEquivalentTo(16 * 17 / 2))
		inC("give_back", uintptr(unsafe.Pointer(m)))
		Expect(released).To(Equal(1))
	})
})
