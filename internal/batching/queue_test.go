package batching

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

// gated is a Queue whose runs begin when the spec says so; they add 1 to each row of one number.
type gated struct {
	*Queue
	gate  chan struct{}
	mu    sync.Mutex
	runs  [][]int64 // the inputs of each
	panic bool
	least time.Duration // that a run takes
}

func newGated(edit func(*Options)) *gated {
	g := &gated{gate: make(chan struct{}, 100)}
	o := Options{Buckets: []int{1, 2, 4}, Slots: 1, Lanes: 4, Calls: 100, Bytes: 1 << 20, Closed: errClosed, Fatal: func(error) bool { return false }, Run: g.compute,
		Outputs: func(shapes [][]int) ([]Output, error) {
			return []Output{{DType: tensor.Int64, Shape: []int{shapes[0][0]}}}, nil
		}}
	if edit != nil {
		edit(&o)
	}
	g.Queue = New(o)
	return g
}

func (g *gated) compute(ctx context.Context, in, out []*tensor.Tensor) error {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	for begin := time.Now(); time.Since(begin) < g.least; { // it computes, and gives its processor to nobody
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.panic {
		panic("a fault of the model")
	}
	x := tensor.Of[int64](in[0])
	g.runs = append(g.runs, append([]int64(nil), x...))
	for i, v := range x {
		tensor.Of[int64](out[0])[i] = v + 1
	}
	return nil
}

// once makes a call of one row.
func (g *gated) once(ctx context.Context, v int64, priority int) error {
	x, y := tensor.From([]int64{v}), tensor.From([]int64{0})
	c, err := g.Prepare([]*tensor.Tensor{x}, 1)
	Expect(err).NotTo(HaveOccurred())
	c.Priority = priority
	err = g.Enter(ctx, c)
	switch {
	case err == nil && c.Direct:
		err = g.compute(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y})
	case err == nil:
		c.CopyTo([]*tensor.Tensor{y})
	}
	g.Leave(c, err)
	if got := tensor.Of[int64](y)[0]; err == nil && got != v+1 {
		err = fmt.Errorf("%d in place of %d", got, v+1)
	}
	return err
}

// ask makes a call of one row, and returns a channel with its error or nil.
func (g *gated) ask(ctx context.Context, v int64, priority int) <-chan error {
	GinkgoHelper()
	before := g.Counts()
	done := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		done <- g.once(ctx, v, priority)
	}()
	Eventually(func() bool { // it waits, has a slot, or is over
		n := g.Counts()
		return n.Waiting != before.Waiting || n.Running != before.Running || len(done) > 0
	}).Should(BeTrue())
	return done
}

var _ = Describe("a Queue", func() {
	It("runs those that wait together, larger priorities first", func(ctx SpecContext) {
		g := newGated(nil)
		first := g.ask(ctx, 1, 0)
		low := []<-chan error{g.ask(ctx, 2, 0), g.ask(ctx, 3, 0), g.ask(ctx, 4, 0)}
		high := []<-chan error{g.ask(ctx, 5, 1), g.ask(ctx, 6, 1)}
		for range 3 {
			g.gate <- struct{}{}
		}
		for _, c := range append(append(low, high...), first) {
			Eventually(c).Should(Receive(BeNil()))
		}
		Expect(g.runs).To(Equal([][]int64{{1}, {5, 6, 2, 3}, {4}}))
		n := g.Counts()
		Expect(n.Runs).To(BeEquivalentTo(3))
		Expect(n.Reasons[Full]).To(BeEquivalentTo(1))
		Expect(n.Reasons[Idle]).To(BeEquivalentTo(2))
	})

	It("adds rows up to the next bucket, with data that the model takes", func(ctx SpecContext) {
		g := newGated(nil)
		all := []<-chan error{g.ask(ctx, 1, 0), g.ask(ctx, 2, 0), g.ask(ctx, 3, 0), g.ask(ctx, 4, 0)}
		close(g.gate)
		for _, c := range all {
			Eventually(c).Should(Receive(BeNil()))
		}
		Expect(g.runs).To(Equal([][]int64{{1}, {2, 3, 4, 2}}))
		Expect(g.Counts().Padding).To(BeEquivalentTo(1))
	})

	It("turns calls down that find too many waiting, in number or bytes", func(ctx SpecContext) {
		for _, edit := range []func(*Options){func(o *Options) { o.Calls = 2 }, func(o *Options) { o.Bytes = 16 }} {
			g := newGated(edit)
			all := []<-chan error{g.ask(ctx, 1, 0), g.ask(ctx, 2, 0), g.ask(ctx, 3, 0)}
			Eventually(g.ask(ctx, 4, 0)).Should(Receive(MatchError(ErrOverloaded)))
			close(g.gate)
			for _, c := range all {
				Eventually(c).Should(Receive(BeNil()))
			}
			Expect(g.Counts().Refused).To(BeEquivalentTo(1))
		}
	})

	It("lets a call wait that alone has more bytes than may wait", func(ctx SpecContext) {
		g := newGated(func(o *Options) { o.Bytes = 1 })
		all := []<-chan error{g.ask(ctx, 1, 0), g.ask(ctx, 2, 0)}
		close(g.gate)
		for _, c := range all {
			Eventually(c).Should(Receive(BeNil()))
		}
	})

	It("gives up waiting after the time-out, and when the context ends", func(ctx SpecContext) {
		g := newGated(func(o *Options) { o.Timeout = 20 * time.Millisecond })
		first := g.ask(ctx, 1, 0)
		late := g.ask(ctx, 2, 0)
		var err error
		Eventually(late).Should(Receive(&err))
		Expect(err).To(MatchError(ErrOverloaded))
		Expect(err).To(MatchError(context.DeadlineExceeded))
		close(g.gate)
		Eventually(first).Should(Receive(BeNil()))
		Expect(g.Counts().Expired).To(BeEquivalentTo(1))
		Expect(g.runs).To(Equal([][]int64{{1}}))

		g = newGated(nil)
		first = g.ask(ctx, 1, 0)
		gone, cancel := context.WithCancel(ctx)
		other := g.ask(gone, 2, 0)
		cancel()
		Eventually(other).Should(Receive(MatchError(context.Canceled)))
		close(g.gate)
		Eventually(first).Should(Receive(BeNil()))
		Expect(g.Counts().Gone).To(BeEquivalentTo(1))
		Expect(g.runs).To(Equal([][]int64{{1}}))
	})

	It("returns from a run under way when the context of a call ends that does not lead it", func(ctx SpecContext) {
		g := newGated(nil)
		first := g.ask(ctx, 1, 0)
		second := g.ask(ctx, 2, 0)
		gone, cancel := context.WithCancel(ctx)
		third := g.ask(gone, 3, 0)
		g.gate <- struct{}{}
		Eventually(first).Should(Receive(BeNil()))
		Eventually(func() int { return g.Counts().Waiting }).Should(BeZero())
		cancel()
		Eventually(third).Should(Receive(MatchError(context.Canceled)))
		close(g.gate)
		Eventually(second).Should(Receive(BeNil()))
		Expect(g.runs).To(Equal([][]int64{{1}, {2, 3}}))
	})

	It("waits for more rows until a run is full, the delay is over or a deadline is near", func(ctx SpecContext) {
		g := newGated(func(o *Options) { o.Delay = time.Hour; o.Slots = 2 })
		close(g.gate)
		all := []<-chan error{g.ask(ctx, 1, 0), g.ask(ctx, 2, 0), g.ask(ctx, 3, 0), g.ask(ctx, 4, 0)}
		for _, c := range all {
			Eventually(c).Should(Receive(BeNil()))
		}
		Expect(g.Counts().Reasons[Full]).To(BeEquivalentTo(1))
		for soon := 50 * time.Millisecond; g.Counts().Reasons[Deadline] == 0; soon *= 2 { // a call may come to its turn when it is over
			Expect(soon).To(BeNumerically("<", time.Minute))
			ending, cancel := context.WithTimeout(ctx, soon)
			Eventually(g.ask(ending, 5, 0)).Should(Receive(Or(BeNil(), MatchError(context.DeadlineExceeded))))
			cancel()
		}

		g = newGated(func(o *Options) { o.Delay = 20 * time.Millisecond })
		close(g.gate)
		Eventually(g.ask(ctx, 1, 0)).Should(Receive(BeNil()))
		Expect(g.Counts().Reasons[Delay]).To(BeEquivalentTo(1))
	})

	It("has its runs take turns with others', and calls join one that waits for its turn", func(ctx SpecContext) {
		t := make(turns, 2)
		g := newGated(func(o *Options) { o.Slots, o.Turns = 2, t })
		close(g.gate)
		Eventually(g.ask(ctx, 1, 0)).Should(Receive(BeNil())) // runs its own tensors
		Expect(t).To(BeEmpty())
		g.runs = nil
		Expect([]bool{t.Try(), t.Try(), t.Try()}).To(Equal([]bool{true, true, false}))
		gone, cancel := context.WithCancel(ctx)
		first := g.ask(gone, 1, 0)
		all := []<-chan error{g.ask(ctx, 2, 0), g.ask(ctx, 3, 0)}
		Consistently(all[0], 20*time.Millisecond).ShouldNot(Receive())
		cancel()
		Eventually(first).Should(Receive(MatchError(context.Canceled)))
		Expect(t).To(HaveLen(2))
		all = append(all, g.ask(ctx, 4, 0))
		Consistently(all[0], 20*time.Millisecond).ShouldNot(Receive())
		t.Done()
		for _, c := range all {
			Eventually(c).Should(Receive(BeNil()))
		}
		Expect(g.runs).To(Equal([][]int64{{2, 3, 4, 2}}))
		Expect(t).To(HaveLen(1))
	})

	Describe("whose callers share one processor", func() {
		// many has so many callers call so often each, with two slots, and returns what has happened.
		many := func(ctx context.Context, callers, times int, least time.Duration) Counts {
			GinkgoHelper()
			DeferCleanup(runtime.GOMAXPROCS, runtime.GOMAXPROCS(1))
			q := newGated(func(o *Options) { o.Slots = 2 })
			q.least = least
			close(q.gate)
			var group sync.WaitGroup
			for i := range callers {
				group.Go(func() {
					defer GinkgoRecover()
					for k := range times {
						Expect(q.once(ctx, int64(times*i+k), 0)).To(Succeed())
					}
				})
			}
			group.Wait()
			return q.Counts()
		}

		It("has calls join a short run that are ready when it begins", func(ctx SpecContext) {
			n := many(ctx, 16, 200, 0)
			Expect(n.Calls).To(BeEquivalentTo(16 * 200))
			Expect(n.Runs).To(BeNumerically("<", n.Calls/2))
		})

		It("has long runs, and those of one caller, begin at once", func(ctx SpecContext) {
			n := many(ctx, 2, 100, 2*shortRun)
			Expect([]uint64{n.Calls, n.Runs}).To(HaveEach(BeEquivalentTo(2 * 100)))
			n = many(ctx, 1, 200, 0)
			Expect([]uint64{n.Calls, n.Runs}).To(HaveEach(BeEquivalentTo(200)))
		})
	})

	It("drains: takes no more, and answers what it has taken", func(ctx SpecContext) {
		g := newGated(nil)
		all := []<-chan error{g.ask(ctx, 1, 0), g.ask(ctx, 2, 0), g.ask(ctx, 3, 0)}
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		Expect(g.Drain(short)).To(MatchError(context.DeadlineExceeded))
		Eventually(g.ask(ctx, 4, 0)).Should(Receive(MatchError(ErrDraining)))
		close(g.gate)
		Expect(g.Drain(ctx)).To(Succeed())
		for _, c := range all {
			Eventually(c).Should(Receive(BeNil()))
		}
	})

	It("closes: those that wait fail, and it returns when runs under way are over", func(ctx SpecContext) {
		g := newGated(nil)
		first, second := g.ask(ctx, 1, 0), g.ask(ctx, 2, 0)
		closed := make(chan struct{})
		go func() {
			g.Close()
			close(closed)
		}()
		Eventually(second).Should(Receive(MatchError(ErrDraining)))
		Consistently(closed, 20*time.Millisecond).ShouldNot(BeClosed())
		Eventually(g.ask(ctx, 3, 0)).Should(Receive(MatchError(errClosed)))
		close(g.gate)
		Eventually(first).Should(Receive(BeNil()))
		Eventually(closed).Should(BeClosed())
	})

	It("gives the others of a run an error where the model panics", func(ctx SpecContext) {
		g := newGated(nil)
		first := g.ask(ctx, 1, 0)
		leader := make(chan any, 1)
		go func() {
			c, _ := g.Prepare([]*tensor.Tensor{tensor.From([]int64{2})}, 1)
			defer func() {
				leader <- recover()
				g.Leave(c, errors.New("panic"))
			}()
			_ = g.Enter(ctx, c)
		}()
		Eventually(func() int { return g.Counts().Waiting }).Should(Equal(1))
		other := g.ask(ctx, 3, 0)
		g.gate <- struct{}{}
		Eventually(first).Should(Receive(BeNil()))
		g.mu.Lock()
		g.panic = true
		g.mu.Unlock()
		g.gate <- struct{}{}
		Eventually(leader).Should(Receive(Equal("a fault of the model")))
		Eventually(other).Should(Receive(MatchError(ContainSubstring("a fault of the model"))))
		g.mu.Lock()
		g.panic = false
		g.mu.Unlock()
		close(g.gate)
		Eventually(g.ask(ctx, 4, 0)).Should(Receive(BeNil()))
	})
})
