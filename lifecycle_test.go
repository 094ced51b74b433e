package carve_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// counted is what the driver "counted" opened last.
var counted atomic.Pointer[faulty]

func init() {
	backend.Register("counted", func(backend.Config) (backend.Backend, error) {
		b := newFaulty("counted", "Conv", "Relu", "Add", "Sigmoid")

		counted.Store(b)
		return b, nil
	})
}

var _ = Describe("a Program's life", func() {
	feeds := map[string]tensor.Value{"x": wave(1, 3, 8, 8)}
	onCounted := func() *carve.Options { return &carve.Options{Backends: []backend.Config{{Name: "counted"}}} }

	// blocking makes runs of the counted backend wait for a channel.
	blocking := func(b *faulty) (entered chan struct{}, leave chan struct{}) {
		entered, leave = make(chan struct{}, 100), make(chan struct{})
		b.enqueue = func() error {
			entered <- struct{}{}
			<-leave
			return errBroken // and falls back
		}
		return entered, leave
	}

	It("ends with Close: everything later is ErrClosed", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), onCounted())
		b := counted.Load()
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		_, err = s.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Memory().Arenas).To(BeNumerically(">", 0))
		Expect(p.Close()).To(Succeed())
		Expect(p.Close()).To(Succeed())
		_, err = p.Run(ctx, feeds)
		Expect(err).To(MatchError(carve.ErrClosed))
		Expect(p.RunInto(ctx, nil, nil)).To(MatchError(carve.ErrClosed))
		_, err = p.NewSession()
		Expect(err).To(MatchError(carve.ErrClosed))
		_, _, err = p.RunProfiled(ctx, feeds)
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = p.Check(ctx, feeds)
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = p.Report(ctx, map[string][]int{"x": {1, 3, 9, 9}})
		Expect(err).To(MatchError(carve.ErrClosed))
		_, err = s.Run(ctx, feeds)
		Expect(err).To(MatchError(carve.ErrClosed))
		Expect(s.RunInto(ctx, []*tensor.Tensor{wave(1, 3, 8, 8)}, []*tensor.Tensor{nil})).To(MatchError(carve.ErrClosed))
		Expect(b.closed.Load()).To(BeZero(), "the session is still there")
		Expect(s.Close()).To(Succeed())
		Expect(s.Close()).To(Succeed())
		Expect(b.closed.Load()).To(BeNumerically("==", 1))
		Expect(b.executables.Load()).To(BeZero())
		Expect(p.Memory().Arenas).To(BeZero())
	})

	It("has settings of any size, and refuses what there is not", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), &carve.Options{MaxSessions: math.MaxInt, Streams: math.MaxInt})
		defer p.Close()
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(2, 3, 9, 11)})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Report(ctx, map[string][]int{"x": {1, 3, 9, 11}, "z": {1}})
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(err).To(MatchError(ContainSubstring(`"z": the model has no such input`)))
		Expect(p.SavePlan(ctx, nil, nil)).To(MatchError(carve.ErrInput))
		Expect(new(carve.Program).Retry()).To(BeZero())
	})

	It("goes on until the last Run returns", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), onCounted())
		b := counted.Load()
		entered, leave := blocking(b)
		done := make(chan error)
		go func() {
			_, err := p.Run(ctx, feeds)
			done <- err
		}()
		Eventually(entered).Should(Receive())
		Expect(p.Close()).To(Succeed())
		Expect(b.closed.Load()).To(BeZero())
		close(leave)
		var err error
		Eventually(done).Should(Receive(&err))
		Expect(err).NotTo(HaveOccurred())
		Expect(b.closed.Load()).To(BeNumerically("==", 1))
		Expect(b.executables.Load()).To(BeZero())
	})

	It("closes backends once, whatever Compile and Close do at once", func(ctx SpecContext) {
		for range 20 {
			p := compile(ctx, textModel(smallNet()), onCounted())
			b := counted.Load()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					defer GinkgoRecover()
					for {
						if _, err := p.Run(ctx, feeds); err != nil {
							Expect(err).To(MatchError(carve.ErrClosed))
							return
						}
					}
				})
			}
			time.Sleep(time.Millisecond)
			for range 2 {
				wg.Go(func() { p.Close() })
			}
			wg.Wait()
			Expect(b.closed.Load()).To(BeNumerically("==", 1))
			Expect(b.executables.Load()).To(BeZero())
		}
	})

	It("closes backends when Compile fails", func(ctx SpecContext) {
		o := onCounted()
		o.Dims = map[string]int{"nobody": 3}
		_, err := carve.Compile(ctx, textModel(smallNet()), o)
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(counted.Load().closed.Load()).To(BeNumerically("==", 1))
	})

	It("bounds concurrent runs by MaxSessions; who waits honours its context", func(ctx SpecContext) {
		o := onCounted()
		o.MaxSessions = 2
		p := compile(ctx, textModel(smallNet()), o)
		entered, leave := blocking(counted.Load())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				defer GinkgoRecover()
				_, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
			})
		}
		Eventually(entered).Should(Receive())
		Eventually(entered).Should(Receive())
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := p.Run(short, feeds)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(entered).NotTo(Receive())
		wg.Go(func() {
			defer GinkgoRecover()
			_, err := p.Run(ctx, feeds) // waits, and has its turn
			Expect(err).NotTo(HaveOccurred())
		})
		close(leave)
		wg.Wait()
	})

	It("lets who waits for a session know that the Program was closed", func(ctx SpecContext) {
		o := onCounted()
		o.MaxSessions = 1
		p := compile(ctx, textModel(smallNet()), o)
		entered, leave := blocking(counted.Load())
		defer close(leave)
		go p.Run(ctx, feeds) // ends with the spec
		Eventually(entered).Should(Receive())
		done := make(chan error)
		go func() {
			_, err := p.Run(ctx, feeds)
			done <- err
		}()
		Consistently(done, 20*time.Millisecond).ShouldNot(Receive())
		Expect(p.Close()).To(Succeed())
		Eventually(done).Should(Receive(MatchError(carve.ErrClosed)))
	})

	It("stays within MaxArenaBytes", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), &carve.Options{MaxArenaBytes: 100_000})
		_, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(1, 3, 200, 200)})
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
		Expect(err.Error()).To(MatchRegexp(`: \d{6,} bytes with \d+ in use, limit 100000$`))
		_, err = p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Memory().Arenas).To(BeNumerically("<=", 100_000))
	})

	It("keeps as many specialisations as it may", func(ctx SpecContext) {
		b := newFaulty("lru", "Conv")
		var made atomic.Int32
		b.specialize = func() error { made.Add(1); return nil }
		o := withFaulty(b)
		o.MaxSpecializations, o.MaxSessions = 3, 1
		p := compile(ctx, textModel(smallNet()), o)
		run := func(h int) {
			GinkgoHelper()
			_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(1, 3, h, 8)})
			Expect(err).NotTo(HaveOccurred())
		}
		run(4)
		per := made.Load()
		Expect(per).To(BeNumerically(">", 0))
		for _, h := range []int{5, 6, 4, 5, 6} {
			run(h)
		}
		Expect(made.Load()).To(Equal(3*per), "three shapes")
		run(7) // drops 4
		run(5)
		run(6)
		run(7)
		Expect(made.Load()).To(Equal(4 * per))
		run(4)
		Expect(made.Load()).To(Equal(5 * per))
	})

	It("makes a specialisation once for all who want it", func(ctx SpecContext) {
		b := newFaulty("once", "Conv")
		var made atomic.Int32
		b.specialize = func() error { made.Add(1); time.Sleep(5 * time.Millisecond); return nil }
		o := withFaulty(b)
		o.MaxSessions = 8
		p := compile(ctx, textModel(smallNet()), o)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				defer GinkgoRecover()
				_, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
			})
		}
		wg.Wait()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		groups := int32(0)
		for _, g := range r.Groups {
			if g.Backend == "once" {
				groups++
			}
		}
		Expect(made.Load()).To(Equal(groups))
	})

	It("uses weights of a Model only until that is closed", func(ctx SpecContext) {
		m := textModel(smallNet())
		p := compile(ctx, m, nil)
		Expect(p.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		_, err := carve.Compile(ctx, m, nil)
		Expect(err).To(HaveOccurred())
	})

	It("survives its Model's Close", func(ctx SpecContext) {
		z := openZoo(ctx, "bert_tiny")
		p := compile(ctx, z.Model, nil)
		want, err := p.Run(ctx, z.feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(z.Close()).To(Succeed())
		got, err := p.Run(ctx, z.feeds)
		Expect(err).NotTo(HaveOccurred())
		expectSame(got, want)
		_, err = carve.Compile(ctx, z.Model, nil)
		Expect(err).To(HaveOccurred())
		Expect(p.Close()).To(Succeed())
		Expect(fmt.Sprint(p.Memory())).To(Equal(fmt.Sprint(carve.Memory{})))
	})
})
