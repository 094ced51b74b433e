package pool_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/pool"
)

// coverage counts the calls that saw each item and keeps what the parts looked like.
type coverage struct {
	mu     sync.Mutex
	seen   []int
	los    []int
	inside []atomic.Int32 // by worker: more than one at a time is a fault
	fault  atomic.Bool
	used   []atomic.Int64 // parts by worker
	work   time.Duration
}

func newCoverage(n, threads int) *coverage {
	return &coverage{seen: make([]int, n), inside: make([]atomic.Int32, threads), used: make([]atomic.Int64, threads)}
}

func cover(arg any, worker, lo, hi int) {
	c := arg.(*coverage)
	if c.inside[worker].Add(1) != 1 {
		c.fault.Store(true)
	}
	for start := time.Now(); time.Since(start) < c.work; {
	}
	c.mu.Lock()
	c.los = append(c.los, lo)
	for i := lo; i < hi; i++ {
		c.seen[i]++
	}
	c.mu.Unlock()
	c.used[worker].Add(1)
	c.inside[worker].Add(-1)
}

func (c *coverage) once() bool {
	for _, s := range c.seen {
		if s != 1 {
			return false
		}
	}
	return true
}

// goroutines returns how many goroutines run this package's workers.
func goroutines() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "created by github.com/carve-dev/carve/internal/pool.(*work")
}

var _ = Describe("Run", func() {
	BeforeEach(func() {
		old := runtime.GOMAXPROCS(4)
		DeferCleanup(func() { runtime.GOMAXPROCS(old) })
		pool.Acquire()
		DeferCleanup(pool.Release)
	})

	DescribeTable("covers every item once with parts that begin at multiples of grain",
		func(n, grain, threads int) {
			r := pool.BeginRun(threads)
			defer r.End()
			for range 20 {
				c := newCoverage(n, r.Threads())
				r.For(n, grain, cover, c)
				Expect(c.once()).To(BeTrue())
				Expect(c.fault.Load()).To(BeFalse(), "two parts at a time on one worker")
				for _, lo := range c.los {
					Expect(lo % max(grain, 1)).To(BeZero())
				}
				Expect(len(c.los)).To(BeNumerically("<=", 4*r.Threads()))
			}
		},
		Entry("one item", 1, 1, 4),
		Entry("fewer items than threads", 3, 1, 4),
		Entry("as many chunks as fit", 16, 1, 4),
		Entry("one more", 17, 1, 4),
		Entry("grain that does not divide", 1000, 48, 3),
		Entry("grain above n", 10, 48, 4),
		Entry("grain 0", 100, 0, 2),
		Entry("one thread", 100, 1, 1),
		Entry("all threads", 100003, 16, 0),
	)

	It("has a worker begin in a range of its own", func() {
		r := pool.BeginRun(2)
		defer r.End()
		for range 5 {
			first, begun, once := -1, make(chan struct{}), sync.Once{}
			r.For(40, 1, func(_ any, worker, lo, _ int) {
				if worker == 1 {
					once.Do(func() { first = lo; close(begun) })
				} else { // the caller waits for it in its first part
					Eventually(begun).Should(BeClosed())
				}
			}, nil)
			Expect(first).To(BeNumerically(">=", 20))
		}
	})

	It("calls nothing for no items", func() {
		r := pool.BeginRun(0)
		defer r.End()
		r.For(0, 1, func(any, int, int, int) { Fail("called") }, nil)
		r.For(-5, 1, func(any, int, int, int) { Fail("called") }, nil)
	})

	It("uses several goroutines", func() {
		r := pool.BeginRun(4)
		defer r.End()
		others, once := make(chan struct{}), sync.Once{}
		r.For(64, 1, func(_ any, worker, _, _ int) {
			if worker > 0 {
				once.Do(func() { close(others) })
			} else { // the caller waits for them in its first part
				Eventually(others).Should(BeClosed())
			}
		}, nil)
	})

	It("caps threads at GOMAXPROCS and at the Run's number", func() {
		for asked, want := range map[int]int{0: 4, -1: 4, 1: 1, 3: 3, 99: 4} {
			r := pool.BeginRun(asked)
			Expect(r.Threads()).To(Equal(want))
			r.End()
		}
		r := pool.BeginRun(2)
		defer r.End()
		other := pool.BeginRun(4) // its workers spin too, but may not take part in r's loops
		defer other.End()
		for range 50 {
			c := newCoverage(1000, 2)
			r.For(1000, 1, cover, c)
			Expect(c.once()).To(BeTrue())
		}
	})

	It("runs nested loops serially", func() {
		r := pool.BeginRun(4)
		defer r.End()
		var inner, parts atomic.Int64
		r.For(16, 1, func(_ any, _, lo, hi int) {
			for range hi - lo {
				r.For(100, 1, func(_ any, worker, lo, hi int) {
					Expect(worker).To(BeZero())
					parts.Add(1)
					inner.Add(int64(hi - lo))
				}, nil)
			}
		}, nil)
		Expect(inner.Load()).To(BeEquivalentTo(1600))
		Expect(parts.Load()).To(BeEquivalentTo(16))
	})

	It("serves concurrent Runs", func() {
		var group sync.WaitGroup
		var wrong atomic.Int64
		for range 6 {
			group.Go(func() {
				r := pool.BeginRun(0)
				defer r.End()
				for range 200 {
					c := newCoverage(257, r.Threads())
					r.For(257, 8, cover, c)
					if !c.once() || c.fault.Load() {
						wrong.Add(1)
					}
				}
			})
		}
		group.Wait()
		Expect(wrong.Load()).To(BeZero())
	})

	It("works after the workers have parked", func() {
		r := pool.BeginRun(4)
		r.End()
		time.Sleep(3 * time.Millisecond)
		r.Begin(4)
		time.Sleep(12 * time.Millisecond) // beyond loopGap
		for range 10 {
			c := newCoverage(64, r.Threads())
			r.For(64, 1, cover, c)
			Expect(c.once()).To(BeTrue())
		}
		r.End()
	})

	It("leaves workers asleep where no loop since the last Begin had work for them, until one has", func() {
		const threads = 4
		asleep := func() { GinkgoHelper(); Eventually(pool.Sleeping).Should(BeEquivalentTo(threads - 1)) }
		r := pool.BeginRun(threads)
		defer r.End()
		r.End()
		asleep()
		for range 2 {
			r.Begin(threads)
			c := newCoverage(10, r.Threads())
			r.For(10, 16, cover, c) // of one part
			r.Park()
			r.Resume()
			Expect(c.once()).To(BeTrue())
			Consistently(pool.Sleeping, "2ms", "100us").Should(BeEquivalentTo(threads - 1))
		}
		Eventually(func() (parts int64) { // the system may have no processor for them at once
			c := newCoverage(64, r.Threads())
			c.work = time.Millisecond
			r.For(64, 1, cover, c)
			Expect(c.once()).To(BeTrue())
			for i := range c.used[1:] {
				parts += c.used[1+i].Load()
			}
			return parts
		}).Should(BeNumerically(">", 0))
		r.End()
		asleep()
		r.Begin(threads) // a loop had
		Expect(pool.Sleeping()).To(BeZero())
		r.Park()
		r.End()
		asleep()
	})

	It("wakes workers that left their cores in a gap of a Run that yields", func() {
		var run pool.Run
		defer run.End()
		for range 20 {
			run.BeginYielding(0)
			c := newCoverage(64, run.Threads())
			run.For(64, 1, cover, c)
			Expect(c.once()).To(BeTrue())
			time.Sleep(200 * time.Microsecond)
			c = newCoverage(64, run.Threads())
			run.For(64, 1, cover, c)
			Expect(c.once()).To(BeTrue())
		}
	})

	It("is serial between Park and Resume", func() {
		r := pool.BeginRun(4)
		defer r.End()
		r.Park()
		r.Park()
		c := newCoverage(64, r.Threads())
		r.For(64, 1, cover, c)
		Expect(c.los).To(Equal([]int{0}))
		r.Resume()
		r.Resume()
		c = newCoverage(64, r.Threads())
		r.For(64, 1, cover, c)
		Expect(c.once()).To(BeTrue())
		Expect(c.los).To(HaveLen(16))
		r.Park()
		r.End()
		r.End()
	})

	It("is serial once it goes alone, and leaves workers asleep when it begins again", func() {
		r := pool.BeginRun(4)
		defer r.End()
		r.Alone(false)
		c := newCoverage(64, r.Threads())
		r.For(64, 1, cover, c)
		Expect(c.los).To(Equal([]int{0}))
		r.End()
		Eventually(pool.Sleeping).Should(BeEquivalentTo(3))
		r.Begin(4)
		Consistently(pool.Sleeping, "2ms", "100us").Should(BeEquivalentTo(3))
		c = newCoverage(64, r.Threads())
		r.For(64, 1, cover, c)
		Expect(c.once()).To(BeTrue())
		Expect(c.los).To(HaveLen(16))
		r.Begin(4)
		r.Alone(true)
		r.Begin(4)
		Expect(pool.Sleeping()).To(BeZero())
	})

	It("is serial for nil and zero Runs", func() {
		for _, r := range []*pool.Run{nil, new(pool.Run)} {
			c := newCoverage(64, 1)
			r.For(64, 1, cover, c)
			Expect(c.los).To(Equal([]int{0}))
			Expect(r.Threads()).To(Equal(1))
			r.Park()
			r.Resume()
			r.End()
		}
	})

	It("allocates nothing", func() {
		r := pool.BeginRun(2)
		defer r.End()
		type sum struct{ parts [2]int64 }
		s := new(sum)
		add := func(arg any, worker, lo, hi int) { arg.(*sum).parts[worker] += int64(hi - lo) }
		n := 0
		for range 100 {
			n++
			r.For(1000, 10, add, s)
		}
		before := s.parts[0] + s.parts[1]
		Expect(before).To(BeEquivalentTo(1000 * n))
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		for range 1000 {
			r.For(1000, 10, add, s)
		}
		runtime.ReadMemStats(&m1)
		Expect(m1.Mallocs-m0.Mallocs).To(BeNumerically("<", 100), "allocations in 1000 loops")
	})

	Describe("a loop body that panics", func() {
		boom := errors.New("boom")
		catch := func(f func()) (v any) {
			defer func() { v = recover() }()
			f()
			return nil
		}

		DescribeTable("panics on the caller with the value and the stack, and the pool works on",
			func(threads, n int, bad func(lo, hi int) bool) {
				r := pool.BeginRun(threads)
				defer r.End()
				for range 20 {
					v := catch(func() {
						r.For(n, 1, func(_ any, _, lo, hi int) {
							time.Sleep(10 * time.Microsecond)
							if bad(lo, hi) {
								panic(fmt.Errorf("part %d: %w", lo, boom))
							}
						}, nil)
					})
					p, ok := v.(*pool.Panic)
					Expect(ok).To(BeTrue())
					Expect(errors.Is(p, boom)).To(BeTrue())
					Expect(string(p.Stack)).To(ContainSubstring("run_test.go"))
					c := newCoverage(100, r.Threads())
					r.For(100, 1, cover, c)
					Expect(c.once()).To(BeTrue())
				}
			},
			Entry("first part", 4, 64, func(lo, hi int) bool { return lo == 0 }),
			Entry("last part", 4, 64, func(lo, hi int) bool { return hi == 64 }),
			Entry("all parts", 4, 64, func(lo, hi int) bool { return true }),
			Entry("serial", 1, 64, func(lo, hi int) bool { return lo == 0 }),
		)

		It("passes a nested panic on unwrapped", func() {
			r := pool.BeginRun(4)
			defer r.End()
			v := catch(func() {
				r.For(64, 1, func(any, int, int, int) {
					r.For(2, 1, func(any, int, int, int) { panic("deep") }, nil)
				}, nil)
			})
			Expect(v.(*pool.Panic).Value).To(Equal("deep"))
			Expect(v.(*pool.Panic).Error()).To(Equal("pool: panic in loop body: deep"))
			Expect(v.(*pool.Panic).Unwrap()).To(Succeed())
		})

		It("survives runtime.Goexit on any goroutine", func() {
			for range 20 {
				ended := make(chan any, 1)
				go func() {
					r := pool.BeginRun(4)
					defer r.End()
					defer func() { ended <- recover() }()
					r.For(64, 1, func(any, int, int, int) {
						time.Sleep(20 * time.Microsecond)
						runtime.Goexit()
					}, nil)
				}()
				Eventually(ended).Should(Receive())
				r := pool.BeginRun(4)
				c := newCoverage(64, 4)
				c.work = 20 * time.Microsecond
				r.For(64, 1, cover, c)
				Expect(c.once()).To(BeTrue())
				Expect(c.los).To(HaveLen(16), "the loop was parallel")
				r.End()
			}
		})
	})
})

var _ = Describe("Acquire and Release", func() {
	BeforeEach(func() {
		old := runtime.GOMAXPROCS(4)
		DeferCleanup(func() { runtime.GOMAXPROCS(old) })
		Eventually(goroutines).Should(BeZero()) // those of the specs before end by themselves
	})

	It("ends the workers with the last user", func() {
		pool.Acquire()
		pool.Acquire()
		r := pool.BeginRun(4)
		Expect(goroutines()).To(Equal(3))
		pool.Release()
		Expect(goroutines()).To(Equal(3))
		pool.Release()
		Eventually(goroutines).Should(BeZero())
		pool.Release() // one too many
		c := newCoverage(64, 4)
		r.For(64, 1, cover, c)
		Expect(c.once()).To(BeTrue())
		r.End()
	})

	It("starts nothing without a user", func() {
		r := pool.BeginRun(4)
		defer r.End()
		Expect(goroutines()).To(BeZero())
		c := newCoverage(64, 4)
		r.For(64, 1, cover, c)
		Expect(c.once()).To(BeTrue())
	})

	It("can be repeated while loops run", func() {
		stop := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				pool.Acquire()
				runtime.Gosched()
				pool.Release()
			}
		})
		for range 300 {
			r := pool.BeginRun(4)
			c := newCoverage(64, 4)
			r.For(64, 1, cover, c)
			r.End()
			Expect(c.once()).To(BeTrue())
			Expect(c.fault.Load()).To(BeFalse())
		}
		close(stop)
		group.Wait()
		Eventually(goroutines).Should(BeZero())
	})
})
