//go:build linux

package plugin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Numbers at which the crash plugin does something bad, as in its source.
const (
	aborts = 1001 + iota
	segfaults
	loops
	exits
	scribbles
	erases
	badStatus
	longError
	never
)

// patience returns the time that a library has which does something bad: little where it does not answer, and else much, since
// nobody knows how long a machine that does other things takes for an answer.
func patience(how int) string {
	switch how {
	case loops, never, scribbles, erases: // what was asked by a call whose reply is corrupt may stay without an answer
		return "1s"
	}
	return "30s"
}

// crashOptions are those of a Program with the crash plugin before cpu, which does something bad at a number.
func crashOptions(how float32, options map[string]string) *carve.Options {
	path := build(GinkgoTB(), "testdata/crash.c")
	o := map[string]string{"out-of-process": "true", "timeout": patience(int(how))}
	for k, v := range options {
		o[k] = v
	}
	return &carve.Options{Plugins: []string{path}, Backends: []backend.Config{{Name: "crash", Options: o}, {Name: "cpu"}}}
}

// runRelu runs relu on a tensor that begins with x.
func runRelu(ctx context.Context, p *carve.Program, x float32) error {
	in := tensor.From([]float32{x, -2, 3, -4, 5, -6}, 2, 3)
	out, err := p.Run(ctx, map[string]tensor.Value{"x": in})
	if err == nil {
		Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))).To(Equal([]float32{max(x, 0), 0, 3, 0, 5, 0}))
	}
	return err
}

// runsOn reports whether the only group is the crash plugin's, and why it is run otherwise.
func runsOn(ctx context.Context, p *carve.Program) (bool, string) {
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, x := range r.Rejected {
		if x.Backend == "crash" {
			return false, x.Reason
		}
	}
	return r.Groups[0].Backend == "crash", ""
}

var _ = Describe("a plugin out of process", func() {
	BeforeEach(func() { outOfProcess(GinkgoTB()) })

	DescribeTable("is survived, and comes back", func(ctx SpecContext, x float32, cause error, text string) {
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, crashOptions(x, nil))
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		Expect(runRelu(ctx, p, 1)).To(Succeed())
		Expect(runsOn(ctx, p)).To(BeTrue())
		Expect(runRelu(ctx, p, x)).To(Succeed()) // by the fallback
		on, why := runsOn(ctx, p)
		Expect(on).To(BeFalse())
		Expect(why).To(SatisfyAll(ContainSubstring("run-failed"), ContainSubstring(cause.Error()), ContainSubstring(text), ContainSubstring("enqueue")))
		Expect(p.Retry()).To(Equal(1))
		Expect(runRelu(ctx, p, 1)).To(Succeed()) // it waits for the new process
		Expect(p.Retry()).To(BeZero())           // no group has failed
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Processes).To(HaveExactElements(SatisfyAll(HaveField("Backend", "crash"), HaveField("Restarts", 1), HaveField("Last", ContainSubstring(text)))))
	},
		Entry("abort", float32(aborts), plugin.ErrCrashed, "signal 6"),
		Entry("a fault", float32(segfaults), plugin.ErrCrashed, "signal 11"),
		Entry("a loop without end", float32(loops), plugin.ErrHung, "has not answered enqueue within 1s"),
		Entry("exit", float32(exits), plugin.ErrExited, "exited with code 3"),
		Entry("a reply of ones", float32(scribbles), plugin.ErrCorrupt, "corrupt reply to enqueue"),
		Entry("a reply of zeros", float32(erases), plugin.ErrCorrupt, "corrupt reply to enqueue"),
	)

	DescribeTable("answers nonsense", func(ctx SpecContext, x float32, text string) {
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, crashOptions(x, nil))
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		Expect(runRelu(ctx, p, x)).To(Succeed())
		_, why := runsOn(ctx, p)
		Expect(why).To(SatisfyAll(ContainSubstring("run-failed"), ContainSubstring(text)))
	},
		Entry("a status that there is not", float32(badStatus), "status -12345"),
		Entry("an error whose text lies anywhere", float32(longError), "enqueue: failed"),
		Entry("an event that never happens", float32(never), plugin.ErrHung.Error()),
	)

	// between has two groups of the plugin, on memory of its own, and one of cpu between them: x, x and c, and the sum again are
	// copied to it, or back.
	between := func(ctx SpecContext, how int, c float32, fault string, once bool) *carve.Program {
		GinkgoHelper()
		m := model(fmt.Sprintf("graph {\n  opset 17\n  input %%x: f32[2,3]\n  const %%c = f32[1,1]{%g}\n  %%a = Relu(%%x)\n  %%b = Add(%%a, %%c)\n"+
			"  %%y = Relu(%%b)\n  output %%y\n}", c))
		DeferCleanup(m.Close)
		o := crashOptions(float32(how), nil)
		o.Backends[0].Name, o.Backends[0].Options["fault"], o.Placement = "crash-memory", fault, carve.Priority
		if once {
			o.Backends[0].Options["once"] = filepath.Join(GinkgoT().TempDir(), "once")
		}
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		return p
	}
	backends := func(ctx SpecContext, p *carve.Program) (names []string) {
		GinkgoHelper()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, g := range r.Groups {
			names = append(names, g.Backend)
		}
		return names
	}
	for _, f := range faults {
		DescribeTable("that does "+f.name+" in the middle of a copy", func(ctx SpecContext, x, c float32, fault string) {
			if x > 1000 {
				x = float32(f.how)
			} else {
				c = float32(f.how) - x
			}
			feeds := map[string]tensor.Value{"x": tensor.From([]float32{x, -2, 3, -4, 5, -6}, 2, 3)}
			p := between(ctx, f.how, c, fault, true)
			DeferCleanup(p.Close)
			out, err := p.Run(ctx, feeds) // it is done again
			Expect(err).NotTo(HaveOccurred())
			Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))).To(Equal([]float32{x + c, c, 3 + c, c, 5 + c, c}))
			Expect(backends(ctx, p)).To(Equal([]string{"crash-memory", "cpu", "crash-memory"}))
			Expect(p.Retry()).To(BeZero())
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Processes).To(HaveExactElements(HaveField("Restarts", 1)))
			Expect(p.Close()).To(Succeed()) // or its process, which knows its options, is that of the next

			p = between(ctx, f.how, c, fault, false)
			defer func() { Expect(p.Close()).To(Succeed()) }()
			_, err = p.Run(ctx, feeds)
			Expect(err).To(MatchError(carve.ErrRun))
			Expect(err).To(MatchError(plugin.ErrProcess))
			Expect(err).To(MatchError(f.cause))
			Expect(err).To(MatchError(ContainSubstring("copy: ")))
			other := map[string]tensor.Value{"x": tensor.From([]float32{50, -2, 3, -4, 5, -6}, 2, 3)}
			out, err = p.Run(ctx, other)
			Expect(err).NotTo(HaveOccurred())
			Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))).To(Equal([]float32{50 + c, c, 3 + c, c, 5 + c, c}))
		},
			Entry("of an input to the device", float32(1001), float32(0), "to"),
			Entry("of a value to the group behind", float32(1001), float32(0), "from"),
			Entry("of a value from the group before", float32(1), float32(0), "to"),
			Entry("of a result", float32(1), float32(0), "from"),
		)
	}

	It("is an error in strict mode", func(ctx SpecContext) {
		m := relu()
		defer m.Close()
		o := crashOptions(0, nil)
		o.Strict = true
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		err = runRelu(ctx, p, segfaults)
		Expect(err).To(MatchError(plugin.ErrCrashed))
		Expect(err).To(MatchError(plugin.ErrProcess))
		Expect(err).To(MatchError(ContainSubstring("plugin crash: enqueue: crashed: its process was ended by signal 11")))
		var of *plugin.ProcessError
		Expect(errors.As(err, &of)).To(BeTrue())
		Expect(of.Function).To(Equal("enqueue"))
		Expect(runRelu(ctx, p, 1)).To(Succeed())
	})

	DescribeTable("may fail while a model is compiled", func(ctx SpecContext, fault, patience, text string) {
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, crashOptions(0, map[string]string{"fault": fault, "compile-timeout": patience}))
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		Expect(runRelu(ctx, p, 1)).To(Succeed())
		on, why := runsOn(ctx, p)
		Expect(on).To(BeFalse())
		Expect(why).To(ContainSubstring(text))
	},
		Entry("when it is opened", "open", "30s", "signal 11"),
		Entry("when it is asked what it supports", "supports", "30s", "supports: crashed"),
		Entry("when it compiles", "compile", "30s", "compile: crashed"),
		Entry("when it compiles without an end", "slow-compile", "1s", "has not answered compile within 1s"),
		Entry("when it makes an instance", "specialize", "30s", "specialize: crashed"),
	)

	It("tells why it cannot be opened", func() {
		_, err := plugin.OpenOutOfProcess(build(GinkgoTB(), "testdata/crash.c", "-DQUERY_ABORTS"), nil)
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(plugin.ErrCrashed))
		_, err = plugin.OpenOutOfProcess(build(GinkgoTB(), "testdata/odd.c", "-DODD=NO_TABLE"), nil)
		Expect(err).To(MatchError(plugin.ErrVersion))
		Expect(err).To(MatchError(ContainSubstring("another host, please")))
		for range 20 { // what a process says last is heard, however soon it has ended
			_, err = plugin.OpenOutOfProcess("does-not-exist.so", nil)
			Expect(err).To(MatchError(plugin.ErrPlugin))
		}
		_, err = plugin.OpenOutOfProcess(build(GinkgoTB(), "testdata/crash.c"), &plugin.Process{Host: "/bin/false"})
		Expect(err).To(MatchError(plugin.ErrHost))
	})

	It("logs to its user", func(ctx SpecContext) {
		m := relu()
		defer m.Close()
		o := crashOptions(0, nil)
		var mu sync.Mutex
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		Expect(runRelu(ctx, p, aborts)).To(Succeed()) // the second process logs to who is known by then
		p.Retry()
		Expect(runRelu(ctx, p, 1)).To(Succeed())
		Eventually(func() string { mu.Lock(); defer mu.Unlock(); return log.String() }).Should(ContainSubstring("msg=open plugin=crash"))
	})

	It("takes strided operands that its process does not see", func(ctx SpecContext) {
		m := relu()
		defer m.Close()
		p, err := carve.Compile(ctx, m, crashOptions(0, nil))
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		x := tensor.From([]float32{1, -2, 3, -4, 5, -6}, 3, 2)
		x.Shape, x.Strides = []int{2, 3}, []int{1, 2}
		y := tensor.From([]float32{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, 12)
		y.Shape, y.Strides = []int{2, 3}, []int{6, 2}
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		defer s.Close()
		Expect(s.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y})).To(Succeed())
		Expect(runsOn(ctx, p)).To(BeTrue())
		Expect(tensor.Of[float32](&tensor.Tensor{DType: y.DType, Shape: []int{12}, Data: y.Data})).
			To(Equal([]float32{1, 9, 3, 9, 5, 9, 0, 9, 0, 9, 0, 9}))
	})

	It("leaves nothing behind", func(ctx SpecContext) {
		count := func() int {
			list, err := os.ReadDir("/proc/self/fd")
			Expect(err).NotTo(HaveOccurred())
			return len(list)
		}
		maps := func() string {
			b, err := os.ReadFile("/proc/self/maps")
			Expect(err).NotTo(HaveOccurred())
			return string(b)
		}
		cycle := func() {
			m := relu()
			defer m.Close()
			p, err := carve.Compile(ctx, m, crashOptions(0, nil))
			Expect(err).NotTo(HaveOccurred())
			Expect(runRelu(ctx, p, 1)).To(Succeed())
			Expect(p.Close()).To(Succeed())
		}
		cycle()
		goroutines, files := runtime.NumGoroutine(), count()
		for range 5 {
			cycle()
		}
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", goroutines))
		Eventually(func() int { runtime.GC(); return count() }).Should(BeNumerically("<=", files))
		Eventually(func() string { runtime.GC(); return maps() }).ShouldNot(ContainSubstring("memfd:carve-plugin"))
		Eventually(func() error { _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); return err }).Should(Equal(syscall.ECHILD), "no children")
	})
})

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// killed runs a Program in 8 goroutines while the process of one of its libraries is killed again and again. Every request is
// answered right or with an error that says so, and the library does its work at the end.
func killed(ctx context.Context, p *carve.Program, pid func() int, input func(float32) *tensor.Tensor, kills int) {
	GinkgoHelper()
	run := func(x float32) ([]float32, error) {
		out, err := p.Run(ctx, map[string]tensor.Value{"x": input(x)})
		if err != nil {
			return nil, err
		}
		return tensor.Of[float32](out["y"].(*tensor.Tensor)), nil
	}
	want := make([][]float32, 8)
	var err error
	for i := range want {
		want[i], err = run(float32(i) - 3)
		Expect(err).NotTo(HaveOccurred())
	}
	many := kills
	var right, failed atomic.Int64
	var wg sync.WaitGroup
	over := make(chan struct{})
	for i := range want {
		wg.Go(func() {
			defer GinkgoRecover()
			for {
				select {
				case <-over:
					return
				default:
				}
				got, err := run(float32(i) - 3)
				if err != nil {
					Expect(err).To(MatchError(plugin.ErrProcess))
					failed.Add(1)
					continue
				}
				Expect(got).To(HaveLen(len(want[i])))
				for k := range got {
					Expect(got[k]).To(BeNumerically("~", want[i][k], 1e-4))
				}
				right.Add(1)
			}
		})
	}
	for last := 0; kills > 0; kills-- {
		Eventually(pid).ShouldNot(Or(BeZero(), Equal(last)))
		p.Retry()
		if kills%4 > 0 { // at times before it has answered anything
			before := right.Load()
			Eventually(right.Load).WithPolling(time.Millisecond).Should(BeNumerically(">", before))
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		}
		if pid := pid(); pid > 0 { // 0 would be this process and its like
			last = pid
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	close(over)
	wg.Wait()
	GinkgoWriter.Printf("%d right, %d failed\n", right.Load(), failed.Load())
	Expect(right.Load()).To(BeNumerically(">", many/2))
	Eventually(func() bool {
		p.Retry()
		_, err := run(1)
		return err == nil && p.Retry() == 0
	}).Should(BeTrue())
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Processes).To(HaveExactElements(SatisfyAll(HaveField("Restarts", many), HaveField("Last", ContainSubstring("signal 9")))))
}

// killedBackend does that with the process of a backend.
func killedBackend(ctx context.Context, path, name, model string, input func(float32) *tensor.Tensor, kills int) {
	GinkgoHelper()
	l, err := plugin.OpenOutOfProcess(path, nil)
	Expect(err).NotTo(HaveOccurred())
	b, err := l.Open(name, nil)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(b.Close()).To(Succeed()) }()
	g, err := graph.Parse(model)
	Expect(err).NotTo(HaveOccurred())
	m := carve.FromGraph(g)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{MaxSessions: 8, Backends: []backend.Config{{Name: name}, {Name: "cpu"}},
		Open: map[string]backend.Backend{name: b}})
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(p.Close()).To(Succeed()) }()
	killed(ctx, p, func() int { return plugin.PID(b) }, input, kills)
}

var _ = Describe("a process that is killed while 8 goroutines use it", func() {
	BeforeEach(func() { outOfProcess(GinkgoTB()) })

	host := func(ctx context.Context, kills int) {
		killedBackend(ctx, build(GinkgoTB(), "testdata/crash.c"), "crash", "graph {\n  opset 17\n  input %x: f32[2,3]\n  %y = Relu(%x)\n  output %y\n}",
			func(x float32) *tensor.Tensor { return tensor.From([]float32{x, x, x, -x, -x, -x}, 2, 3) }, kills)
	}
	device := func(ctx context.Context, kills int) {
		weights := make([]string, 64)
		for i := range weights {
			weights[i] = "0.5"
		}
		model := "graph {\n  opset 17\n  input %x: f32[4,8]\n  const %w = f32[8,8]{" + strings.Join(weights, ", ") + "}\n" +
			"  %a = MatMul(%x, %w)\n  %b = Relu(%a)\n  %y = Add(%b, %a)\n  output %y\n}"
		killedBackend(ctx, build(GinkgoTB(), "../../examples/plugin/accelerator.c"), "tiny-npu", model, func(x float32) *tensor.Tensor {
			data := make([]float32, 32)
			for i := range data {
				data[i] = x + float32(i)/8
			}
			return tensor.From(data, 4, 8)
		}, kills)
	}
	operator := func(ctx context.Context, kills int) {
		path := build(GinkgoTB(), "testdata/crashown.c")
		m := model("graph {\n  opset 17\n  opset \"com.crash\" 1\n  input %x: f32[2,3]\n  %a = Abs(%x)\n  %b = Neg(%a)\n" +
			"  %y = com.crash::Double(%b)\n  output %y\n}")
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{MaxSessions: 8, Plugins: []string{path}, PluginOptions: map[string]string{"out-of-process": "true"}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		killed(ctx, p, func() int { return plugin.LibraryPID(path) },
			func(x float32) *tensor.Tensor { return tensor.From([]float32{x, x, x, -x, -x, -x}, 2, 3) }, kills)
	}
	It("answers all requests, with an operator and a property's kernel", func(ctx SpecContext) { operator(ctx, 12) })
	It("answers all requests, with the host's memory", func(ctx SpecContext) { host(ctx, 12) })
	It("answers all requests, with memory of its own", func(ctx SpecContext) { device(ctx, 12) })

	DescribeTable("answers all requests, 200 times", Label("slow"), func(ctx SpecContext, run func(ctx context.Context, kills int)) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes minutes: -ginkgo.label-filter=slow")
		}
		run(ctx, 200)
	},
		Entry("with the host's memory", host),
		Entry("with memory of its own", device),
		Entry("with an operator and a property's kernel", operator),
	)
})
