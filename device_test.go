package carve_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// digits opens the quickstart's model.
func digits(ctx context.Context) *carve.Model {
	GinkgoHelper()
	m, err := carve.OpenFS(ctx, os.DirFS("examples/quickstart"), "digits.onnx")
	Expect(err).NotTo(HaveOccurred())
	return m
}

func digitsInput(n int) map[string]tensor.Value {
	data := make([]float32, n*64)
	for i := range data {
		data[i] = float32(i*7%17) / 16
	}
	return map[string]tensor.Value{"image": tensor.From(data, n, 1, 8, 8)}
}

func withBox(b *box, rest ...string) *carve.Options {
	o := &carve.Options{Backends: []backend.Config{{Name: b.name}}, Open: map[string]backend.Backend{b.name: b}}
	for _, name := range rest {
		o.Backends = append(o.Backends, backend.Config{Name: name})
	}
	return o
}

func mustCompile(ctx context.Context, m *carve.Model, o *carve.Options) *carve.Program {
	GinkgoHelper()
	p, err := carve.Compile(ctx, m, o)
	Expect(err).NotTo(HaveOccurred())
	return p
}

func floats(v tensor.Value) []float32 { return tensor.Elements[float32](v.(*tensor.Tensor)) }

// referenceOutputs computes with the reference backend alone.
func referenceOutputs(ctx context.Context, m *carve.Model, in map[string]tensor.Value) map[string]tensor.Value {
	GinkgoHelper()
	p := mustCompile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	defer p.Close()
	out, err := p.Run(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	return out
}

var _ = Describe("a device that is not the host", func() {
	It("runs a whole model, weights included, bit for bit", func(ctx SpecContext) {
		b := newBox("box")
		m := digits(ctx)
		p := mustCompile(ctx, m, withBox(b))
		for _, n := range []int{1, 5, 2} {
			got, err := p.Run(ctx, digitsInput(n))
			Expect(err).NotTo(HaveOccurred())
			Expect(floats(got["probabilities"])).To(Equal(floats(referenceOutputs(ctx, m, digitsInput(n))["probabilities"])))
		}
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Backend).To(Equal("box"))
		constants := 0
		for _, c := range r.Conversions {
			if c.Constant {
				constants++
			}
		}
		Expect(constants).To(BeNumerically(">=", 6))
		Expect(p.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(b.mem.live()).To(BeZero())
	})

	It("shares a model with cpu and with a second device, converting at every cut", func(ctx SpecContext) {
		conv, pool := newBox("convbox", "Conv"), newBox("poolbox", "MaxPool", "Softmax")
		m := digits(ctx)
		o := withBox(conv, "poolbox")
		o.Open["poolbox"] = pool
		p := mustCompile(ctx, m, o)
		got, err := p.Run(ctx, digitsInput(3))
		Expect(err).NotTo(HaveOccurred())
		want := floats(referenceOutputs(ctx, m, digitsInput(3))["probabilities"])
		for i, x := range floats(got["probabilities"]) {
			Expect(x).To(BeNumerically("~", want[i], 1e-6))
		}
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, g := range r.Groups {
			names = append(names, g.Backend)
		}
		Expect(names).To(Equal([]string{"convbox", "cpu", "poolbox", "convbox", "cpu", "poolbox", "cpu", "poolbox"}))
		Expect(r.Devices).To(HaveLen(3))
		d, err := p.Check(ctx, digitsInput(3))
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())
		Expect(p.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(conv.mem.live() + pool.mem.live()).To(BeZero())
	})

	It("is the Program's own where the Program opened it: a second Program of the model packs anew", func(ctx SpecContext) {
		var made []*box
		name := fmt.Sprintf("ownbox%d", boxes.Load())
		backend.Register(name, func(backend.Config) (backend.Backend, error) {
			made = append(made, newBox(name))
			return made[len(made)-1], nil
		})
		m := digits(ctx)
		o := &carve.Options{Backends: []backend.Config{{Name: name}}}
		want := floats(referenceOutputs(ctx, m, digitsInput(1))["probabilities"])
		first, second := mustCompile(ctx, m, o), mustCompile(ctx, m, o)
		Expect(made).To(HaveLen(2))
		for _, p := range []*carve.Program{first, second} {
			got, err := p.Run(ctx, digitsInput(1))
			Expect(err).NotTo(HaveOccurred())
			Expect(floats(got["probabilities"])).To(Equal(want))
		}
		Expect(first.Close()).To(Succeed())
		Expect(made[0].closed.Load()).To(BeTrue())
		Expect(made[0].mem.live()).To(BeZero(), "memory of a device that is closed")
		got, err := second.Run(ctx, digitsInput(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(got["probabilities"])).To(Equal(want))
		Expect(second.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(made[1].mem.live()).To(BeZero())
	})

	DescribeTable("takes values whose shape depends on data, without growing from run to run", func(ctx SpecContext, ops ...string) {
		g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N]
  %i = NonZero(%x) "find"
  %t = Cast(%i; to = 1) "cast"
  %s = ReduceSum(%t; keepdims = 0) "sum"
  output %s
  output %t
}`)
		Expect(err).NotTo(HaveOccurred())
		b := newBox("sumbox", ops...)
		b.dynamic = true
		m := carve.FromGraph(g)
		p := mustCompile(ctx, m, withBox(b))
		live := 0
		for i := range 6 {
			got, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, 0, 2, float32(i % 2), 0, 4}, 6)})
			Expect(err).NotTo(HaveOccurred())
			if i%2 == 0 {
				Expect(floats(got["s"])).To(Equal([]float32{0 + 2 + 5}))
				Expect(floats(got["t"])).To(Equal([]float32{0, 2, 5}))
			} else {
				Expect(floats(got["s"])).To(Equal([]float32{0 + 2 + 3 + 5}))
				Expect(floats(got["t"])).To(Equal([]float32{0, 2, 3, 5}))
			}
			if i == 0 {
				live = b.mem.live()
			}
			Expect(b.mem.live()).To(Equal(live))
		}
		Expect(live).To(BeNumerically(">", 0))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		where, _, _ := r.Why("sum")
		Expect(where).To(Equal("sumbox"))
		Expect(p.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(b.mem.live()).To(BeZero())
	},
		Entry("as operands", "ReduceSum"),
		Entry("as results", "NonZero", "ReduceSum"),
		Entry("as operands, results and in between", "NonZero", "Cast", "ReduceSum"),
	)

	It("falls back where its kernel fails, and says so in strict mode", func(ctx SpecContext) {
		b := newBox("failbox", "MaxPool")
		broken := errors.New("broken")
		b.fail = func(*graph.Node) error { return broken }
		m := digits(ctx)
		DeferCleanup(m.Close)
		p := mustCompile(ctx, m, withBox(b))
		DeferCleanup(p.Close)
		got, err := p.Run(ctx, digitsInput(2))
		Expect(err).NotTo(HaveOccurred())
		want := floats(referenceOutputs(ctx, m, digitsInput(2))["probabilities"])
		for i, x := range floats(got["probabilities"]) {
			Expect(x).To(BeNumerically("~", want[i], 1e-6))
		}

		o := withBox(b, "cpu")
		o.Strict = true
		strict := mustCompile(ctx, m, o)
		DeferCleanup(strict.Close)
		_, err = strict.Run(ctx, digitsInput(2))
		Expect(err).To(MatchError(broken))
		Expect(err).To(MatchError(carve.ErrRun))
		var step *carve.StepError
		Expect(errors.As(err, &step)).To(BeTrue())
		Expect(step.Backend).To(Equal("failbox"))
		Expect(step.Nodes).To(Equal([]string{"pool1"}))
	})

	It("waits for work under way when the context ends", func(ctx SpecContext) {
		b := newBox("slowbox", "MaxPool")
		b.slow = make(chan struct{})
		m := digits(ctx)
		p := mustCompile(ctx, m, withBox(b))
		ended, cancel := context.WithCancel(ctx)
		var returned atomic.Bool
		done := make(chan error, 1)
		go func() {
			_, err := p.Run(ended, digitsInput(1))
			returned.Store(true)
			done <- err
		}()
		Eventually(b.running.Load).Should(BeNumerically("==", 1))
		cancel()
		Consistently(returned.Load, 50*time.Millisecond).Should(BeFalse())
		close(b.slow)
		var err error
		Eventually(done).Should(Receive(&err))
		Expect(err).To(MatchError(context.Canceled))
		Expect(b.running.Load()).To(BeZero())
		_, err = p.Run(ctx, digitsInput(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(b.mem.live()).To(BeZero())
	})

	It("stays within MaxArenaBytes", func(ctx SpecContext) {
		b := newBox("smallbox")
		m := digits(ctx)
		DeferCleanup(m.Close)
		o := withBox(b)
		o.MaxArenaBytes = 200
		p := mustCompile(ctx, m, o)
		DeferCleanup(p.Close)
		_, err := p.Run(ctx, digitsInput(1))
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
	})

	It("is run by many goroutines at once", func(ctx SpecContext) {
		b := newBox("busybox", "Conv", "Gemm")
		m := digits(ctx)
		p := mustCompile(ctx, m, withBox(b))
		want := floats(referenceOutputs(ctx, m, digitsInput(2))["probabilities"])
		errs := make(chan error, 16)
		for range cap(errs) {
			go func() {
				for range 5 {
					out, err := p.Run(ctx, digitsInput(2))
					if err != nil {
						errs <- err
						return
					}
					for i, x := range floats(out["probabilities"]) {
						if d := x - want[i]; d > 1e-6 || d < -1e-6 {
							errs <- fmt.Errorf("element %d is %v, want %v", i, x, want[i])
							return
						}
					}
				}
				errs <- nil
			}()
		}
		for range cap(errs) {
			Expect(<-errs).To(Succeed())
		}
		Expect(p.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Expect(b.mem.live()).To(BeZero())
	})
})
