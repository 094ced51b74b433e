package gemm_test

import (
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// testingAllocs counts the allocations of one call.
func testingAllocs(f func()) float64 { return testing.AllocsPerRun(10, f) }

// packed is what PackB and PackBT must write for b[k, n].
func packed(b []float32, k, n int) []float32 {
	out := make([]float32, gemm.PackedLen(k, n))
	for r := range k {
		for c := range n {
			out[(c/16*k+r)*16+c%16] = b[r*n+c]
		}
	}
	return out
}

var _ = Describe("packing", func() {
	It("writes panels of 16 columns, zero-padded", func() {
		rng := rand.New(rand.NewPCG(1, 1))
		onTargets(func(target isa.Target) {
			for _, k := range []int{1, 2, 15, 16, 17, 63, 64, 65, 130} {
				for _, n := range []int{1, 15, 16, 17, 31, 33, 128, 129, 300} {
					b := make([]float32, k*n)
					for i := range b {
						b[i] = rng.Float32()
					}
					want := packed(b, k, n)
					for _, pad := range []int{0, 3} {
						src, err := guard.New((k-1)*(n+pad)+n, guard.End)
						Expect(err).NotTo(HaveOccurred())
						dst, err := guard.New(len(want), guard.End)
						Expect(err).NotTo(HaveOccurred())
						for r := range k {
							copy(src.Data[r*(n+pad):], b[r*n:][:n])
						}
						gemm.PackB(target, dst.Data, src.Data, k, n, n+pad)
						Expect(dst.Data).To(Equal(want), "k=%d n=%d", k, n)
						Expect(dst.Check()).To(Succeed())

						cols, err := guard.New((n-1)*(k+pad)+k, guard.End)
						Expect(err).NotTo(HaveOccurred())
						for c := range n {
							for r := range k {
								cols.Data[c*(k+pad)+r] = b[r*n+c]
							}
						}
						clear(dst.Data)
						gemm.PackBT(target, dst.Data, cols.Data, k, n, k+pad)
						Expect(dst.Data).To(Equal(want), "transposed k=%d n=%d", k, n)
						Expect(dst.Check()).To(Succeed())
						Expect(cols.Free()).To(Succeed())
						Expect(src.Free()).To(Succeed())
						Expect(dst.Free()).To(Succeed())
					}
				}
			}
		})
	})

	It("packs ranges of panels at their places", func() {
		k, n := 20, 50
		b := make([]float32, k*n)
		for i := range b {
			b[i] = float32(i)
		}
		dst := make([]float32, gemm.PackedLen(k, n))
		for p := gemm.Panels(n) - 1; p >= 0; p-- {
			gemm.PackBPanels(isa.Host(), dst, b, k, n, n, p, p+1)
		}
		Expect(dst).To(Equal(packed(b, k, n)))
	})
})
