package repository_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/fstest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/tensor"
)

const cubes = `graph "m" {
  opset 17
  input %x: f32[N,160,160]
  %a: f32[N,160,160] = MatMul(%x, %x)
  %b: f32[N,160,160] = MatMul(%a, %x)
  %c: f32[N,160,160] = Tanh(%b)
  %y: f32[N,160,160] = MatMul(%c, %x)
  output %b, %y
}`

var _ = Describe("long runs of many callers", func() {
	It("give each its own results, whoever leaves, and leave all places free", func(ctx SpecContext) {
		b, err := modeltest.Encode(cubes)
		Expect(err).NotTo(HaveOccurred())
		files := fstest.MapFS{"joined/config.pbtxt": {Data: []byte("max_batch_size: 4\ndynamic_batching {}\n")}}
		names := []string{"alone", "other", "joined"}
		for _, name := range names {
			files[name+"/1/model.onnx"] = &fstest.MapFile{Data: b}
		}
		r, err := repository.Open(ctx, files, repository.Options{Runs: 2, Queue: 8})
		Expect(err).NotTo(HaveOccurred())
		ask := func(name string, n int, within time.Duration) error {
			v, err := r.Acquire(ctx, name, "")
			Expect(err).NotTo(HaveOccurred())
			defer v.Release()
			x, err := tensor.New(tensor.Float32, 1, 160, 160)
			Expect(err).NotTo(HaveOccurred())
			for i, e := 0, tensor.Elements[float32](x); i < len(e); i += 161 {
				e[i] = float32(n)
			}
			of, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			out, waited, err := v.Run(of, uint64(rand.IntN(3)), map[string]tensor.Value{"x": x})
			if err == nil {
				e := tensor.Elements[float32](out["b"].(*tensor.Tensor))
				Expect(e).To(HaveLen(160 * 160))
				Expect([]float32{e[0], e[1], e[161*159]}).To(Equal([]float32{float32(n * n * n), 0, float32(n * n * n)}))
				Expect(waited).To(BeNumerically("<", time.Minute))
			}
			return err
		}
		var group sync.WaitGroup
		var answered, gone atomic.Int64
		for range 24 {
			group.Go(func() {
				defer GinkgoRecover()
				for range 40 {
					within := time.Minute
					if rand.IntN(3) == 0 {
						within = time.Duration(rand.IntN(8000)) * time.Microsecond
					}
					if err := ask(names[rand.IntN(3)], 1+rand.IntN(50), within); err == nil {
						answered.Add(1)
					} else if errors.Is(err, context.DeadlineExceeded) {
						gone.Add(1)
					}
				}
			})
		}
		group.Wait()
		Expect(answered.Load()).To(BeNumerically(">", 0))
		Expect(gone.Load()).To(BeNumerically(">", 0))
		for _, name := range names {
			Expect(ask(name, 3, time.Minute)).To(Succeed())
		}
		for range 4 { // of two places at a time, no more are taken than given back
			for range 2 {
				group.Go(func() {
					defer GinkgoRecover()
					Expect(ask("alone", 2, time.Minute)).To(Succeed())
				})
			}
			group.Wait()
		}
		Expect(r.Close(ctx)).To(Succeed())
	}, SpecTimeout(2*time.Minute))
})
