package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/graph/tensor"
)

// away reports whether an error says that a model is not loaded, or is being unloaded, or that its call was over.
func away(err error) bool {
	var s *rest.StatusError
	if errors.As(err, &s) {
		return s.Status == http.StatusNotFound || s.Status == http.StatusServiceUnavailable
	}
	return errors.Is(err, context.DeadlineExceeded) || slices.Contains([]codes.Code{codes.NotFound, codes.Unavailable, codes.DeadlineExceeded}, status.Code(err))
}

var _ = It("requests of all priorities, sequences, calls that end early and loads at a time: each has its own answer, or a typed error", func(ctx SpecContext) {
	dir := models()
	Expect(modeltest.Configure(dir, "echo_fp32", "max_batch_size: 8\ndynamic_batching { priority_levels: 3 default_priority_level: 2 }")).To(Succeed())
	l, _ := started("-models", dir, "-model-control", "explicit")
	load(l, "echo_fp32")
	load(l, "total")
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var answered, summed, loads atomic.Int64
	number := uint64(0)
	for form, c := range askers(l) {
		for k := range 6 {
			group.Go(func() {
				defer GinkgoRecover()
				for i := 0; over.Err() == nil; i++ {
					r := request("echo_fp32", "x", tensor.From([]float32{float32(k), float32(i), 7}, 1, 3))
					r.Priority = uint64(i % 4)
					brief, done := context.WithTimeout(ctx, time.Duration(1+i%7*i%11)*time.Millisecond)
					have, err := c.Infer(brief, r)
					done()
					if err != nil {
						Expect(away(err)).To(BeTrue(), "%s: %v", form, err)
						continue
					}
					Expect(tensor.Elements[float32](have.Outputs[0].Tensor)).To(Equal([]float32{float32(k), float32(i), 7}), form)
					answered.Add(1)
				}
			})
		}
		for range 2 {
			number++
			id := number
			group.Go(func() {
				defer GinkgoRecover()
				for over.Err() == nil {
					for i := range 10 {
						r := request("total", "x", tensor.From([]float32{float32(id)}))
						r.Sequence, r.Start, r.End = oip.SequenceID{Number: id}, i == 0, i == 9
						have, err := c.Infer(ctx, r)
						Expect(err).NotTo(HaveOccurred(), form)
						Expect(tensor.Elements[float32](have.Outputs[0].Tensor)).To(Equal([]float32{float32(id) * float32(i+1)}), form)
					}
					summed.Add(1)
				}
			})
		}
	}
	group.Go(func() {
		defer GinkgoRecover()
		for ; over.Err() == nil; loads.Add(1) {
			load(l, "echo_fp32") // again, where it is loaded
			time.Sleep(20 * time.Millisecond)
			if loads.Load()%2 == 0 {
				code, body := ask(l, http.MethodPost, "/v2/repository/models/echo_fp32/unload", "")
				Expect(code).To(Equal(http.StatusOK), body)
			}
		}
	})
	time.Sleep(2 * time.Second)
	for _, n := range []*atomic.Int64{&answered, &summed, &loads} {
		Eventually(n.Load).Should(BeNumerically(">", 3))
	}
	cancel()
	group.Wait()
})
