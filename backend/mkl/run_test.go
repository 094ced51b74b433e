package mkl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// small is a network with branches of several primitives.
const small = `
  input %x: f32[1,3,16,16]
  const %w = f32[32,3,3,3]{~}
  const %b = f32[32]{~}
  const %v = f32[32,32,1,1]{~}
  const %d = f32[32,10]{~}
  %c = Conv(%x, %w, %b; pads=[1,1,1,1])
  %r = Relu(%c)
  %k = Conv(%r, %v)
  %s = Add(%k, %r)
  %t = Relu(%s)
  %p = MaxPool(%t; kernel_shape=[2,2], strides=[2,2])
  %g = GlobalAveragePool(%p)
  %f = Flatten(%g)
  %m = MatMul(%f, %d)
  %y = Softmax(%m)
  output %y`

// arguments returns what RunInto takes.
func arguments(ctx context.Context, p *carve.Program, g *graph.Graph) (in, out []*tensor.Tensor) {
	GinkgoHelper()
	res, err := p.Run(ctx, feeds(g))
	Expect(err).NotTo(HaveOccurred())
	for _, port := range p.Inputs() {
		in = append(in, feeds(g)[port.Name].(*tensor.Tensor))
	}
	for _, port := range p.Outputs() {
		t, err := tensor.New(tensor.Float32, res[port.Name].(*tensor.Tensor).Shape...)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, t)
	}
	return in, out
}

// allocations returns how often f allocates: the least of three tries, since clean-ups of other specs' primitives allocate too.
func allocations(f func()) float64 {
	count := 1.0
	for try := 0; count > 0 && try < 3; try++ {
		runtime.GC()
		count = testing.AllocsPerRun(20, f)
	}
	return count
}

// threads returns the number of the process's threads, 0 where that is not known.
func threads() int {
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	return len(list)
}

// sizes are networks by the number of threads that their primitives are made for.
func sizes() map[int]*graph.Graph {
	GinkgoHelper()
	return map[int]*graph.Graph{1: parse(small), 2: wide("1,64,28,28")}
}

// resident returns the bytes of the process that lie in memory, without garbage; 0 where that is not known.
func resident() int {
	debug.FreeOSMemory()
	var all, held int
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	_, err = fmt.Sscan(string(b), &all, &held)
	Expect(err).NotTo(HaveOccurred())
	return held * os.Getpagesize()
}

var _ = Describe("runs", func() {
	for _, lib := range libraries() {
		It(strings.TrimSpace("allocate nothing "+lib), func(ctx SpecContext) {
			open(lib)
			for n, g := range sizes() {
				p := program(ctx, g, carve.Options{Threads: n, Backends: []backend.Config{{Name: "mkl", Options: options(lib)}}})
				expectAgreement(ctx, p, g)
				in, out := arguments(ctx, p, g)
				Expect(p.RunInto(ctx, in, out)).To(Succeed())
				var err error
				count := allocations(func() { err = errors.Join(err, p.RunInto(ctx, in, out)) })
				Expect(err).NotTo(HaveOccurred())
				Expect(count).To(BeZero(), "%d threads", n)
			}
		})

		It(strings.TrimSpace("agree from many goroutines, without growth "+lib), Label("slow"), func(ctx SpecContext) {
			open(lib)
			runs := 20
			if strings.Contains(GinkgoLabelFilter(), "slow") {
				runs = 1000
			}
			for n, g := range sizes() {
				const sessions = 2
				p := program(ctx, g, carve.Options{Threads: n, MaxSessions: sessions, Backends: []backend.Config{{Name: "mkl", Options: options(lib)}}})
				want, err := p.Run(ctx, feeds(g))
				Expect(err).NotTo(HaveOccurred())
				one := p.Memory()
				// Go starts threads as it needs them, and those have memory of their own: but for these, nothing grows from round to
				// round, so that one adds nothing.
				threadsAdded, bytesAdded := math.MaxInt, math.MaxInt
				for round := 0; round < 50 && (threadsAdded > 0 || bytesAdded > 0); round++ {
					before, held := threads(), resident()
					many(ctx, p, g, runs, want)
					threadsAdded, bytesAdded = min(threadsAdded, threads()-before), min(bytesAdded, resident()-held)
				}
				Expect(threadsAdded).To(BeNumerically("<=", 0), "threads")
				Expect(bytesAdded).To(BeNumerically("<=", 0), "%d threads: resident memory", n)
				Expect(p.Memory().Arenas).To(BeNumerically("<=", sessions*one.Arenas)) // the second session comes when it is needed
				Expect(p.Memory().PackedWeights).To(Equal(one.PackedWeights))
			}
		})
	}

	It("make small primitives for one thread, and large ones for all", func(ctx SpecContext) {
		b := open("")
		Expect(mkl.MadeFor(b, 1000, 2)).To(Equal(1))
		Expect(mkl.MadeFor(b, 1000000, 2)).To(Equal(2))
		Expect(mkl.MadeFor(b, 1000000, 1)).To(Equal(1))
		g := parse(`
  input %x: f32[1,64,56,56]
  const %w = f32[64,64,3,3]{~}
  const %v = f32[8,64,1,1]{~}
  %c = Conv(%x, %w; pads=[1,1,1,1])
  %t = Tanh(%c)
  %p = GlobalAveragePool(%t)
  %s = Conv(%p, %v)
  %u = Tanh(%s)
  %z = Mul(%u, %u)
  %l = Tanh(%x)
  %m = MaxPool(%l; kernel_shape=[2,2], strides=[2,2])
  output %z
  output %m`)
		expectAgreement(ctx, program(ctx, g, carve.Options{Threads: 2}), g)
	})

	It("agree on products of many rows, by one thread and by two", func(ctx SpecContext) {
		open("")
		g := parse(`
  input %x: f32[2,40,256]
  const %w = f32[256,512]{~}
  const %b = f32[512]{~}
  const %v = f32[256,512]{~}
  const %c = f32[256]{~}
  const %u = f32[256,320]{~}
  const %i = i64[2]{80,512}
  const %j = i64[3]{2,40,256}
  %m = MatMul(%x, %w)
  %n = Add(%m, %b)
  %r = Relu(%n)
  %f = Reshape(%r, %i)
  %h = Gemm(%f, %v, %c; transB=1)
  %t = Reshape(%h, %j)
  %s = Add(%t, %x)
  %y = MatMul(%s, %u)
  output %y`)
		for _, n := range []int{1, 2} {
			expectAgreement(ctx, program(ctx, g, carve.Options{Threads: n}), g)
		}
	})

	It("work from fresh goroutines, set-up included", func(ctx SpecContext) {
		open("")
		var wg sync.WaitGroup
		for range 4 {
			wg.Add(1)
			go func() {
				defer GinkgoRecover()
				defer wg.Done()
				g := parse(small)
				expectAgreement(ctx, program(ctx, g, carve.Options{}), g)
			}()
		}
		wg.Wait()
	})

	It("share primitives, and let go of them", func(ctx SpecContext) {
		b := open("")
		known := -1
		Eventually(func() bool { // other specs' are let go of first
			runtime.GC()
			time.Sleep(5 * time.Millisecond)
			last := known
			known = mkl.Primitives(b)
			return known == last
		}).Should(BeTrue())
		g := parse(small)
		in := feeds(g)
		m := carve.FromGraph(g)
		o := &carve.Options{Placement: carve.Priority, Backends: []backend.Config{{Name: "mkl"}}}
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		settled := func() int { // without the primitives that other specs left
			last := -1
			Eventually(func() bool {
				runtime.GC()
				n := mkl.Primitives(b)
				same := n == last
				last = n
				return same
			}).Should(BeTrue())
			return last
		}
		before := settled()
		Expect(before).To(BeNumerically(">", 3))
		q, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		_, err = q.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		Expect(settled()).To(Equal(before))
		Expect(errors.Join(p.Close(), q.Close(), m.Close())).To(Succeed())
		p, q, m = nil, nil, nil
		Eventually(func() int {
			runtime.GC()
			return mkl.Primitives(b)
		}).Should(BeNumerically("<", before))
	})

	DescribeTable("that fail are done otherwise", func(ctx SpecContext, stage, code, text string) {
		open("")
		g := parse(small)
		p := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "mkl", Options: map[string]string{"fail": stage}}}})
		expectAgreement(ctx, p, g)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		_, reasons, found := r.Why("c")
		Expect(found).To(BeTrue())
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "mkl"), HaveField("Reason", HavePrefix(code+": ")),
			HaveField("Reason", ContainSubstring(text)))))
		o := &carve.Options{Placement: carve.Priority, Strict: true, Backends: []backend.Config{{Name: "mkl", Options: map[string]string{"fail": stage}}}}
		strict, err := carve.Compile(ctx, carve.FromGraph(g), o)
		if err == nil {
			defer strict.Close()
			_, err = strict.Run(ctx, feeds(g))
		}
		Expect(err).To(MatchError(ContainSubstring(text)))
		var step *carve.StepError
		Expect(errors.As(err, &step)).To(BeTrue())
		Expect(step.Backend).To(Equal("mkl"))
		Expect(step.Nodes).NotTo(BeEmpty())
	},
		Entry("when they are compiled", "compile", "compile-failed", "failure by option"),
		Entry("when a primitive cannot be made", "primitive", "specialize-fail", "failure by option"),
		Entry("when they run", "run", "run-failed", "failure by option"),
		Entry("when a primitive fails between others", "execute", "run-failed", "dnnl_primitive_execute"),
	)

	for _, lib := range libraries() {
		It(strings.TrimSpace("add what they should to groups whose channels lie last "+lib), func(ctx SpecContext) {
			open(lib)
			c := backend.Config{Name: "mkl", Options: map[string]string{"layout": "NHWC"}}
			if lib != "" {
				c.Options["library"] = lib
			}
			for _, shapes := range [][3]string{{"2,8,5", "2,8,5", "8,1,1"}, {"2,16,5,4", "2,8,5,4", "8,8,1,1"}, {"2,9,3,5,4", "2,9,3,5,4", "9,3,1,1,1"}} {
				groups := map[string]int{"8,1,1": 8, "8,8,1,1": 2, "9,3,1,1,1": 3}[shapes[2]]
				g := parse(fmt.Sprintf(`
  input %%x: f32[%s]
  input %%r: f32[%s]
  const %%w = f32[%s]{~}
  %%c = Conv(%%x, %%w; group=%d)
  %%y = Add(%%c, %%r)
  output %%y`, shapes[0], shapes[1], shapes[2], groups))
				expectAgreement(ctx, program(ctx, g, carve.Options{Verify: true, Backends: []backend.Config{c}}), g)
			}
		})
	}

	DescribeTable("in other layouts of activations", func(ctx SpecContext, layout string) {
		open("")
		g := parse(small)
		p := program(ctx, g, carve.Options{Verify: true, Backends: []backend.Config{{Name: "mkl", Options: map[string]string{"layout": layout}}}})
		expectAgreement(ctx, p, g)
	}, Entry(nil, "NCHW16c"), Entry(nil, "NCHW8c"), Entry(nil, "NHWC"), Entry(nil, "row-major"))
})

// many runs a program from 64 goroutines and compares the results.
func many(ctx context.Context, p *carve.Program, g *graph.Graph, runs int, want map[string]tensor.Value) {
	GinkgoHelper()
	in := feeds(g)
	bad := make(chan string, 64)
	var wg sync.WaitGroup
	for range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range runs {
				got, err := p.Run(ctx, in)
				if err != nil {
					bad <- err.Error()
					return
				}
				if string(got["y"].(*tensor.Tensor).Bytes()) != string(want["y"].(*tensor.Tensor).Bytes()) {
					bad <- "results differ"
					return
				}
			}
		}()
	}
	wg.Wait()
	Expect(bad).To(BeEmpty())
}
