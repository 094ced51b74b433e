package carve_test

import (
	"context"
	"math/rand/v2"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// rowsText is a model whose rows do not depend on each other: y is tanh(x w), z the sum of each row.
const rowsText = `graph "rows" {
  opset 21
  input %x: f32[batch,4]
  const %w = f32[4,3]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  const %axis = i64[1]{1}
  %xw = MatMul(%x, %w)
  %y = Tanh(%xw)
  %z = ReduceSum(%x, %axis)
  output %y, %z
}`

// batched compiles a model given as text, and makes a Batcher over it.
func batched(ctx context.Context, text string, o *carve.Options, bo *carve.BatchOptions) (*carve.Program, *carve.Batcher) {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	p, err := carve.Compile(ctx, carve.FromGraph(g), o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	b, err := carve.NewBatcher(p, bo)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	return p, b
}

func randomRows(r *rand.Rand, rows, width int) *tensor.Tensor {
	v := make([]float32, rows*width)
	for i := range v {
		v[i] = r.Float32() - 0.5
	}
	return tensor.From(v, rows, width)
}

var _ = Describe("a Batcher", func() {
	It("gives every caller the results of its own rows", func(ctx SpecContext) {
		p, b := batched(ctx, rowsText, &carve.Options{MaxSessions: 1}, nil)
		Expect(b.Off()).To(BeEmpty())
		var wg sync.WaitGroup
		for k := range 16 {
			wg.Go(func() {
				defer GinkgoRecover()
				r := rand.New(rand.NewPCG(1, uint64(k)))
				for range 50 {
					x := randomRows(r, 1+r.IntN(3), 4)
					want, err := p.Run(ctx, map[string]tensor.Value{"x": x})
					Expect(err).NotTo(HaveOccurred())
					got, err := b.Run(ctx, map[string]tensor.Value{"x": x})
					Expect(err).NotTo(HaveOccurred())
					for name, w := range want {
						close32(got[name].(*tensor.Tensor), w.(*tensor.Tensor))
					}
				}
			})
		}
		wg.Wait()
	})
})

// close32 compares two tensors of float32 but for the last bits.
func close32(got, want *tensor.Tensor) {
	GinkgoHelper()
	Expect(got.Shape).To(Equal(want.Shape))
	g, w := tensor.Of[float32](got), tensor.Of[float32](want)
	for i := range w {
		Expect(g[i]).To(BeNumerically("~", w[i], 1e-5))
	}
}
