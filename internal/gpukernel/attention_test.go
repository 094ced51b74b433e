package gpukernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// attentionCase has heads side by side in a row, [batch, sequence, heads, depth], as models have them before any transposition.
type attentionCase struct {
	batch, heads, kv, queries, keys, depth, width int
	t                                             gpukernel.Type
	causal, mask                                  bool
	device                                        gpukernel.Device
}

func (c attentionCase) shape() gpukernel.AttentionShape {
	rows := func(t gpukernel.Type, sequence, heads, depth int) gpukernel.Matrix {
		return gpukernel.Matrix{Type: t, Stride: heads * depth, Batch0: sequence * heads * depth, Batch1: depth}
	}
	s := gpukernel.AttentionShape{
		Batch: c.batch, Heads: c.heads, KVHeads: c.kv, Queries: c.queries, Keys: c.keys, Depth: c.depth, Width: c.width,
		Q: rows(c.t, c.queries, c.heads, c.depth), K: rows(c.t, c.keys, c.kv, c.depth), V: rows(c.t, c.keys, c.kv, c.width),
		C: rows(gpukernel.F32, c.queries, c.heads, c.width), Scale: 0.3, Causal: c.causal,
	}
	if c.mask {
		s.Mask, s.MaskStrides = gpukernel.F32, [4]int{c.keys, 0, 0, 1}
	}
	return s
}

// want computes attention in float64.
func (c attentionCase) want(q, k, v, mask []float64) []float64 {
	out := make([]float64, c.batch*c.queries*c.heads*c.width)
	for b := range c.batch {
		for h := range c.heads {
			g := h / (c.heads / c.kv)
			for i := range c.queries {
				weights, most, sum := make([]float64, c.keys), math.Inf(-1), 0.0
				for j := range c.keys {
					for d := range c.depth {
						weights[j] += q[((b*c.queries+i)*c.heads+h)*c.depth+d] * k[((b*c.keys+j)*c.kv+g)*c.depth+d]
					}
					weights[j] *= float64(float32(0.3))
					if c.mask {
						weights[j] += mask[b*c.keys+j]
					}
					if c.causal && j > i+c.keys-c.queries {
						weights[j] = math.Inf(-1)
					}
					most = max(most, weights[j])
				}
				for j := range weights {
					weights[j] = math.Exp(weights[j] - most)
					if math.IsInf(most, -1) {
						weights[j] = 0
					}
					sum += weights[j]
				}
				for d := range c.width {
					total := 0.0
					for j := range weights {
						total += weights[j] * v[((b*c.keys+j)*c.kv+g)*c.width+d]
					}
					if sum != 0 {
						total /= sum
					}
					out[((b*c.queries+i)*c.heads+h)*c.width+d] = total
				}
			}
		}
	}
	return out
}

var _ = Describe("Attention", func() {
	const f32, f16, bf16 = gpukernel.F32, gpukernel.F16, gpukernel.BF16
	It("computes what the definition says", func(ctx SpecContext) {
		hop, open := gpukernel.NVIDIA(90, 132), gpukernel.Generic(8, 32<<10)
		cases := []attentionCase{
			{1, 1, 1, 1, 1, 1, 1, f32, false, false, hop},
			{2, 2, 1, 65, 67, 16, 20, f32, false, true, hop},
			{1, 2, 2, 70, 70, 64, 64, f32, true, false, hop},
			{1, 2, 2, 5, 131, 17, 9, f32, true, true, hop},
			{1, 1, 1, 131, 5, 8, 8, f32, true, false, hop}, // most queries see no key
			{1, 1, 1, 33, 40, 72, 80, f16, false, true, open},
			{1, 2, 1, 20, 33, 32, 32, bf16, true, false, open},
			{1, 1, 1, 17, 35, 256, 256, f32, false, false, hop},
		}
		var plans []*gpukernel.Plan
		for i, c := range cases {
			plan, err := gpukernel.Attention(fmt.Sprintf("attention%d", i), c.device, c.shape())
			Expect(err).NotTo(HaveOccurred())
			plans = append(plans, plan)
		}
		program := start(ctx, plans...)
		r := rand.New(rand.NewPCG(5, 6))
		for i, c := range cases {
			q, k := random(r, c.t, c.batch*c.queries*c.heads*c.depth), random(r, c.t, c.batch*c.keys*c.kv*c.depth)
			v, mask := random(r, c.t, c.batch*c.keys*c.kv*c.width), random(r, f32, c.batch*c.keys)
			for j := range mask {
				if j%5 == 3 {
					mask[j] = math.Inf(-1)
				}
			}
			out := poison(f32, c.batch*c.queries*c.heads*c.width)
			Expect(program.Run(plans[i], map[string][]byte{"q": encode(c.t, q), "k": encode(c.t, k), "v": encode(c.t, v),
				"mask": encode(f32, mask), "c": out})).To(Succeed(), fmt.Sprintf("%+v", c))
			near(fmt.Sprintf("%+v", c), decode(f32, out), c.want(q, k, v, mask), 1e-5)
		}
	})
})
