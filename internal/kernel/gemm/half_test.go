package gemm_test

import (
	"math/rand/v2"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = Describe("A product with panels of float16", func() {
	// same compares one with the product in float32 of what the panels hold, which has the same bits.
	same := func(target isa.Target, s gemm.Spec, transposed bool, rng *rand.Rand) {
		side := guard.Side(rng.IntN(2))
		p := newProduct(s, rng, side)
		defer p.free()
		b, err := guard.New((gemm.PackedLen(s.K, s.N)+1)/2, side)
		Expect(err).NotTo(HaveOccurred())
		p.bufs = append(p.bufs, b)
		half := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b.Data))), gemm.PackedLen(s.K, s.N))
		src, ld := p.b, s.N
		if transposed {
			src, ld = make([]float32, len(p.b)), s.K
			for i := range p.b {
				src[i%s.N*s.K+i/s.N] = p.b[i]
			}
		}
		for i := gemm.Panels(s.N); i > 0; i-- {
			gemm.PackHalfPanels(target, half, src, s.K, s.N, ld, transposed, i-1, i)
		}
		rounded := make([]uint16, len(p.b))
		reorder.ToHalf(isa.Target{}, rounded, p.b, reorder.Float16)
		reorder.FromHalf(isa.Target{}, p.b, rounded, reorder.Float16)
		gemm.PackB(isa.Target{}, p.args.B, p.b, s.K, s.N, s.N)
		p.run(target)
		want := append([]float32(nil), p.args.C...)
		p.args.B, p.spec.Half = b.Data, true
		clear(p.args.C)
		p.run(target)
		Expect(p.args.C).To(Equal(want), "%v %+v", target, s)
		for _, x := range p.bufs {
			Expect(x.Check()).To(Succeed())
		}
	}

	It("is that in float32 of the rounded numbers, bit for bit, at every height, width and length", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		onTargets(func(target isa.Target) {
			for m := 1; m <= 17; m += 1 + rng.IntN(2*testshare.Share-1) {
				for _, n := range []int{1, 15, 16, 17, 33, 48, 64, 65, 80, 97, 144} {
					same(target, gemm.Spec{M: m, N: n, K: 1 + rng.IntN(30), Bias: rng.IntN(2) == 0, Clip: rng.IntN(2) == 0, Lo: -0.5, Hi: 2}, rng.IntN(2) == 0, rng)
				}
			}
			for _, k := range []int{63, 64, 65, 1536, 1537, 4097, 6000} {
				for _, m := range []int{1, 7, 40} {
					same(target, gemm.Spec{M: m, N: 50, K: k, Bias: true}, k%2 == 0, rng)
				}
			}
		})
	})

	It("adds a residual", func() {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, target := range isa.Targets() {
			if target.Set == isa.Portable {
				continue // portable Go adds it before long sums, in another order
			}
			same(target, gemm.Spec{M: 11, N: 70, K: 500, Residual: true}, false, rng)
		}
		same(isa.Target{}, gemm.Spec{M: 11, N: 70, K: 60, Residual: true}, false, rng)
	})
})
