package carve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// shadowed is the reference backend for some operators, whose runs a hook looks at.
type shadowed struct {
	*reference.Backend
	before func(run int, a *backend.RunArgs) error // what it returns is the run's error
	after  func(run int, a *backend.RunArgs)
	align  int64 // that ports ask for
	runs   atomic.Int64
}

func newShadowed(ops ...string) *shadowed {
	return &shadowed{Backend: &reference.Backend{Name: "shadowed", Accept: func(n *graph.Node) bool { return n.Is(ops...) }}}
}

func (s *shadowed) Info() backend.Info {
	i := s.Backend.Info()
	i.Oracle = false
	return i
}

func (s *shadowed) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := s.Backend.Compile(ctx, sub, o)
	return &shadowedExecutable{e, s}, err
}

type shadowedExecutable struct {
	backend.Executable
	s *shadowed
}

func (e *shadowedExecutable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	i, err := e.Executable.Specialize(ctx, b)
	return &shadowedInstance{i, e.s}, err
}

type shadowedInstance struct {
	backend.Instance
	s *shadowed
}

func (i *shadowedInstance) Requirements() backend.Requirements {
	r := i.Instance.Requirements()
	for _, ports := range [][]backend.PortUse{r.Inputs, r.Outputs} {
		for k := range ports {
			ports[k].Align = i.s.align
		}
	}
	return r
}

func (i *shadowedInstance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	run := int(i.s.runs.Add(1))
	if i.s.before != nil {
		if err := i.s.before(run, a); err != nil {
			return nil, err
		}
	}
	event, err := i.Instance.Enqueue(ctx, a)
	if err == nil && i.s.after != nil {
		i.s.after(run, a)
	}
	return event, err
}

func withShadowed(s *shadowed) *carve.Options {
	return &carve.Options{Backends: []backend.Config{{Name: "shadowed"}, {Name: "cpu"}}, Open: map[string]backend.Backend{"shadowed": s},
		Placement: carve.Priority, Verify: true}
}

// aligned reports whether a tensor begins at a multiple of 64 bytes.
func aligned(t *tensor.Tensor) bool {
	return t == nil || t.Offset >= len(t.Data) || uintptr(unsafe.Pointer(&t.Data[t.Offset]))%64 == 0
}

// scanOfFive is a Scan whose slices are 20 bytes, so that few of them are aligned.
const scanOfFive = `graph {
  opset 17
  input %x: f32[T,5]
  input %h: f32[5]
  %last, %all, %more = Scan(%h, %x |; num_scan_inputs=1) "scan" {
    body: graph {
      input %s: f32[5]
      input %e: f32[5]
      %a = Add(%s, %e) "add"
      %next = Sin(%a) "sin"
      %other = Abs(%a) "abs"
      output %next, %next, %other
    }
  }
  output %last, %all, %more
}`

var _ = Describe("loops at their edges", func() {
	It("carry what keeps its shape beside what grows, and stack both", func(ctx SpecContext) {
		p := compile(ctx, textModel(`graph {
  opset 17
  input %x: f32[2]
  input %m: i64[]
  input %stop: i64[]
  const %c = bool[]{true}
  %a, %b, %sa, %si = Loop(%m, %c, %x, %x | %stop) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[2]
      input %w: f32[?n]
      capture %stop: i64[]
      %n = Add(%v, %v) "double"
      %g = Concat(%w, %v; axis=0) "grow"
      %l = Less(%i, %stop) "goes"
      output %l, %n, %g, %n, %i
    }
  }
  output %a, %b, %sa, %si
}`), &carve.Options{Verify: true, Poison: true})
		for m := range int64(6) {
			for stop := range int64(4) {
				got, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, 3}), "m": tensor.Scalar(m), "stop": tensor.Scalar(stop)})
				Expect(err).NotTo(HaveOccurred())
				a, b, sa, si := []float32{1, 3}, []float32{1, 3}, []float32{}, []int64{}
				for i := int64(0); i < m; i++ {
					b = append(b, a...)
					a = []float32{2 * a[0], 2 * a[1]}
					sa, si = append(sa, a...), append(si, i)
					if i >= stop {
						break
					}
				}
				Expect(floats(got["a"])).To(Equal(a), "%d %d", m, stop)
				Expect(floats(got["b"])).To(Equal(b), "%d %d", m, stop)
				Expect(floats(got["sa"])).To(Equal(sa), "%d %d", m, stop)
				Expect(tensor.Elements[int64](got["si"].(*tensor.Tensor))).To(Equal(si), "%d %d", m, stop)
			}
		}
	})

	It("carry what changes its shape in the layout of their body", func(ctx SpecContext) {
		m := textModel(`graph {
  opset 21
  input %x: f32[3,5,3]
  input %axis: i64[1]
  input %w: f32[3,5,5,2]
  input %n: i64[]
  %v = Unsqueeze(%x, %axis)
  %y, %all = Loop(%n, _, %v | %w) "loop" {
    body: graph {
      input %i: i64[]
      input %c: bool[]
      input %u: f32[?1,?2,?3,?4]
      capture %w: f32[3,5,5,2]
      %m = Mean(%w, %w)
      %t = Add(%u, %u)
      output %c, %t, %m
    }
  }
  output %y, %all
}`)
		p := compile(ctx, m, &carve.Options{Verify: true, Poison: true})
		for _, n := range []int64{0, 1, 5, 2} {
			for axis := range int64(4) {
				feeds := map[string]tensor.Value{"x": wave(3, 5, 3), "axis": tensor.From([]int64{axis}), "w": wave(3, 5, 5, 2), "n": tensor.Scalar(n)}
				got, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				for name, want := range referenceOutputs(ctx, m, feeds) {
					near(got[name], want)
				}
			}
		}
	})

	It("write their results to storage of the caller's at any address, for any number of iterations", func(ctx SpecContext) {
		m := textModel(convolving())
		p := compile(ctx, m, nil)
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		for n := range int64(5) {
			x, out := wave(1, 16, 12, 12), wave(1, 16, 12, 12)
			odd := &tensor.Tensor{DType: out.DType, Shape: out.Shape, Data: append(make([]byte, 4), out.Data...), Offset: 4}
			Expect(s.RunInto(ctx, []*tensor.Tensor{x, tensor.Scalar(n)}, []*tensor.Tensor{odd})).To(Succeed())
			near(odd, referenceOutputs(ctx, m, map[string]tensor.Value{"x": x, "m": tensor.Scalar(n)})["y"])
		}
	})

	DescribeTable("lay slices down as backends want them", func(ctx SpecContext, align int64) {
		m, s := textModel(scanOfFive), newShadowed("Add", "Sin", "Abs")
		s.align = align
		s.before = func(_ int, a *backend.RunArgs) error {
			for k, t := range a.Inputs {
				if !aligned(t) {
					return &backend.ContiguousError{Operand: k}
				}
			}
			for k, t := range a.Outputs {
				if !aligned(t) {
					return &backend.ContiguousError{Output: true, Operand: k}
				}
			}
			return nil
		}
		p := compile(ctx, m, withShadowed(s))
		for range 3 {
			feeds := map[string]tensor.Value{"x": wave(7, 5), "h": wave(5)}
			got, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			for name, want := range referenceOutputs(ctx, m, feeds) {
				near(got[name], want)
			}
		}
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, x := range r.Rejected {
			Expect(x.Reason).NotTo(ContainSubstring("run-failed"), "%v", x)
		}
	},
		Entry("where they say so", int64(64)),
		Entry("where they turn down what they get", int64(0)),
	)

	It("are done again from the beginning where a group fails in an iteration", func(ctx SpecContext) {
		m, s := textModel(convolving()), newShadowed("Tanh")
		s.before = func(run int, _ *backend.RunArgs) error {
			if run == 4 {
				return errors.New("the fourth iteration")
			}
			return nil
		}
		p := compile(ctx, m, withShadowed(s))
		feeds := map[string]tensor.Value{"x": wave(1, 16, 12, 12), "m": tensor.Scalar(int64(6))}
		for range 2 {
			got, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			near(got["y"], referenceOutputs(ctx, m, feeds)["y"])
		}
		Expect(s.runs.Load()).To(BeEquivalentTo(4))
	})

	It("are looked into by Check, up to the node", func(ctx SpecContext) {
		m, s := textModel(convolving()), newShadowed("Tanh")
		s.after = func(run int, a *backend.RunArgs) {
			if run >= 3 {
				tensor.Of[float32](a.Outputs[0])[5] += 1
			}
		}
		p := compile(ctx, m, withShadowed(s))
		d, err := p.Check(ctx, map[string]tensor.Value{"x": wave(1, 16, 12, 12), "m": tensor.Scalar(int64(6))})
		Expect(err).NotTo(HaveOccurred())
		Expect(d).NotTo(BeNil())
		Expect(d.Nodes).To(ContainElement("tanh"))
		Expect(d.Backend).To(Equal("shadowed"))
	})

	It("end in an iteration when their context does, and can be run again", func() {
		m, s := textModel(convolving()), newShadowed("Tanh")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s.after = func(run int, _ *backend.RunArgs) {
			if run == 3 {
				cancel()
			}
		}
		p := compile(context.Background(), m, withShadowed(s))
		feeds := map[string]tensor.Value{"x": wave(1, 16, 12, 12), "m": tensor.Scalar(int64(1000))}
		_, err := p.Run(ctx, feeds)
		Expect(err).To(MatchError(context.Canceled))
		Expect(s.runs.Load()).To(BeNumerically("<", 6))
		feeds["m"] = tensor.Scalar(int64(2))
		got, err := p.Run(context.Background(), feeds)
		Expect(err).NotTo(HaveOccurred())
		near(got["y"], referenceOutputs(context.Background(), m, feeds)["y"])
	})

	It("have their buffers within MaxArenaBytes", func(ctx SpecContext) {
		text := fmt.Sprintf(`graph {
  opset 17
  input %%x: f32[%d]
  input %%m: i64[]
  const %%c = bool[]{true}
  %%y = Loop(%%m, %%c, %%x |) "loop" {
    body: graph {
      input %%i: i64[]
      input %%k: bool[]
      input %%v: f32[%d]
      %%n = Sin(%%v) "sin"
      output %%k, %%n
    }
  }
  output %%y
}`, 1<<20, 1<<20)
		feeds := map[string]tensor.Value{"x": wave(1 << 20), "m": tensor.Scalar(int64(3))}
		p := compile(ctx, textModel(text), &carve.Options{MaxArenaBytes: 9 << 20}) // two of 4 MiB
		got, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		x := float64(tensor.Of[float32](wave(8))[7])
		Expect(floats(got["y"])[7]).To(BeNumerically("~", math.Sin(math.Sin(math.Sin(x))), 1e-5))
		m := textModel(text)
		_, err = carve.Compile(ctx, m, &carve.Options{MaxArenaBytes: 3 << 20})
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
	})
})
