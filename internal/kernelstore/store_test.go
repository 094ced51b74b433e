package kernelstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernelstore"
)

var _ = Describe("a store", func() {
	var freed []string
	var s *kernelstore.Store[string]
	BeforeEach(func() {
		freed = nil
		s = &kernelstore.Store[string]{Free: func(p string) { freed = append(freed, p) }}
	})
	made := func(p string) func() (string, error) { return func() (string, error) { return p, nil } }

	It("builds once, and keeps what is idle", func(ctx SpecContext) {
		var built atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				e, err := s.Acquire(ctx, "k", func() (string, error) { built.Add(1); return "p", nil })
				if err == nil {
					e.Release()
				}
			})
		}
		wg.Wait()
		Expect(built.Load()).To(Equal(int32(1)))
		e, err := s.Acquire(ctx, "k", func() (string, error) { return "", errors.New("not again") })
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Program).To(Equal("p"))
		Expect(freed).To(BeEmpty())
	})

	It("gives the one that was idle longest back where there are many", func(ctx SpecContext) {
		for i := range kernelstore.MostIdle + 2 {
			e, err := s.Acquire(ctx, fmt.Sprint(i), made(fmt.Sprint("p", i)))
			Expect(err).NotTo(HaveOccurred())
			e.Release()
			if i == kernelstore.MostIdle-1 { // 0 is used once more
				e, err := s.Acquire(ctx, "0", nil)
				Expect(err).NotTo(HaveOccurred())
				e.Release()
			}
		}
		Expect(freed).To(Equal([]string{"p1", "p2"}))
	})

	It("tries again after an error, and after another one's context has ended", func(ctx SpecContext) {
		bad := errors.New("bad")
		_, err := s.Acquire(ctx, "k", func() (string, error) { return "", bad })
		Expect(err).To(MatchError(bad))
		times := 0
		e, err := s.Acquire(ctx, "k", func() (string, error) {
			if times++; times == 1 {
				return "", context.Canceled
			}
			return "p", nil
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Program).To(Equal("p"))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = s.Acquire(ended, "l", func() (string, error) { return "", ended.Err() })
		Expect(err).To(MatchError(context.Canceled))
	})

	It("gives all back at the end, once", func(ctx SpecContext) {
		e, err := s.Acquire(ctx, "k", made("p"))
		Expect(err).NotTo(HaveOccurred())
		idle, err := s.Acquire(ctx, "l", made("q"))
		Expect(err).NotTo(HaveOccurred())
		idle.Release()
		s.Clear()
		Expect(freed).To(ConsistOf("p", "q"))
		e.Release()
		s.Clear()
		Expect(freed).To(HaveLen(2))
		e, err = s.Acquire(ctx, "k", made("r"))
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Program).To(Equal("r"))
	})
})
