package carve_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// callers has goroutines call run again and again, each until its first error, which has to be allowed; results have to be those that are wanted.
// When there are some, it calls meanwhile, and waits until all goroutines are over.
func callers(want map[string]tensor.Value, run func() (map[string]tensor.Value, error), allowed func(error) bool, meanwhile func()) {
	GinkgoHelper()
	var wg sync.WaitGroup
	var done atomic.Int64
	for range 16 {
		wg.Go(func() {
			defer GinkgoRecover()
			for {
				got, err := run()
				if err != nil {
					Expect(allowed(err)).To(BeTrue(), err.Error())
					return
				}
				expectSame(got, want)
				done.Add(1)
			}
		})
	}
	Eventually(done.Load).WithTimeout(time.Minute).WithPolling(time.Millisecond).Should(BeNumerically(">", 50))
	meanwhile()
	wg.Wait()
}

var _ = Describe("what ends while it is in use", func() {
	It("a Program: each run has its result, or ErrClosed", func(ctx SpecContext) {
		for range 4 {
			p := compile(ctx, textModel(smallNet()), nil)
			feeds := map[string]tensor.Value{"x": wave(1, 3, 8, 8)}
			want, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			callers(want, func() (map[string]tensor.Value, error) { return p.Run(ctx, feeds) },
				func(err error) bool { return errors.Is(err, carve.ErrClosed) }, func() { Expect(p.Close()).To(Succeed()) })
		}
	})

	It("a Batcher: each call has its result, ErrDraining or, behind it, ErrClosed, which tells what is closed", func(ctx SpecContext) {
		for range 4 {
			p, b := batched(ctx, rowsText, nil, &carve.BatchOptions{Buckets: []int{1, 2, 4}})
			x := map[string]tensor.Value{"x": tensor.From([]float32{1, 2, 3, 4}, 1, 4)}
			want, err := b.Run(ctx, x)
			Expect(err).NotTo(HaveOccurred())
			callers(want, func() (map[string]tensor.Value, error) { return b.Run(ctx, x) },
				func(err error) bool { return errors.Is(err, carve.ErrDraining) || errors.Is(err, carve.ErrClosed) }, func() { Expect(b.Close()).To(Succeed()) })
			_, err = b.Run(ctx, x)
			Expect(err).To(MatchError(carve.ErrClosed))
			Expect(err).To(MatchError("batcher is closed"))
			Expect(b.RunInto(ctx, []*tensor.Tensor{tensor.From([]float32{1, 2, 3, 4}, 1, 4)}, []*tensor.Tensor{nil, nil})).To(MatchError("batcher is closed"))
			got, err := p.Run(ctx, x)
			Expect(err).NotTo(HaveOccurred())
			expectSame(got, want)
		}
	})

	It("a Program under a Batcher: each call has its result, or ErrClosed", func(ctx SpecContext) {
		for range 4 {
			p, b := batched(ctx, rowsText, nil, &carve.BatchOptions{Buckets: []int{1, 2, 4}})
			x := map[string]tensor.Value{"x": tensor.From([]float32{1, 2, 3, 4}, 1, 4)}
			want, err := b.Run(ctx, x)
			Expect(err).NotTo(HaveOccurred())
			callers(want, func() (map[string]tensor.Value, error) { return b.Run(ctx, x) },
				func(err error) bool { return errors.Is(err, carve.ErrClosed) }, func() { Expect(p.Close()).To(Succeed()) })
		}
	})

	It("a Program that is saved meanwhile: bundles give the results of the runs", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), nil)
		feeds := map[string]tensor.Value{"x": wave(1, 3, 8, 8)}
		want, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(GinkgoT().TempDir(), "saved")
		callers(want, func() (map[string]tensor.Value, error) { return p.Run(ctx, feeds) }, func(err error) bool { return errors.Is(err, carve.ErrClosed) }, func() {
			defer p.Close()
			for range 4 {
				Expect(p.SaveBundle(ctx, path, nil)).To(Succeed())
				m, err := carve.Open(ctx, path)
				Expect(err).NotTo(HaveOccurred())
				got, err := compile(ctx, m, nil).Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				expectSame(got, want)
				Expect(m.Close()).To(Succeed())
			}
		})
	})

	It("contexts, at any moment: each call has its result, or its context's error, and leaves nothing that the next meets", func(ctx SpecContext) {
		_, b := batched(ctx, rowsText, nil, &carve.BatchOptions{Buckets: []int{1, 2, 4}})
		for _, on := range []struct {
			carve.Runner
			x *tensor.Tensor
		}{{compile(ctx, textModel(smallNet()), nil), wave(1, 3, 8, 8)}, {b, tensor.From([]float32{1, 2, 3, 4}, 1, 4)}} {
			feeds := map[string]tensor.Value{"x": on.x}
			want, err := on.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					defer GinkgoRecover()
					for j := range 50 {
						brief, cancel := context.WithTimeout(ctx, time.Duration(i*j)*time.Microsecond)
						got, err := on.Run(brief, feeds)
						cancel()
						if err == nil {
							expectSame(got, want)
						} else {
							Expect(err).To(MatchError(context.DeadlineExceeded))
						}
					}
				})
			}
			wg.Wait()
			got, err := on.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			expectSame(got, want)
		}
	})
})
