package amx_test

import (
	"math"
	"math/rand/v2"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/amx"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

var _ = Describe("Finish", func() {
	It("adds, bounds and writes as portable Go does, bit for bit", func() {
		if isa.Host().Set != isa.AVX512 {
			Skip("no AVX-512 here")
		}
		r := rand.New(rand.NewPCG(1, 8))
		for range 300 {
			f := amx.Finish{Rows: 1 + r.IntN(20), Panels: 1 + r.IntN(4), Lo: float32(math.Inf(-1)), Hi: float32(math.Inf(1)), Stored: 1<<(1+r.IntN(16)) - 1}
			f.Sums = f.Stored
			if f.Stored == 0xffff && r.IntN(2) == 0 {
				f.Sums = 1<<(1+r.IntN(16)) - 1
			}
			if r.IntN(2) == 0 {
				f.Lo, f.Hi = -0.5, 0.25
			}
			width := 16 * f.Panels
			f.LDS = 4 * (width + r.IntN(3))
			sums := guarded(r, (f.Rows-1)*f.LDS/4+width)
			// Rows of panels side by side, or panels of rows below each other.
			last := 0
			for f.Stored>>last&1 != 0 {
				last++
			}
			var length int
			if r.IntN(2) == 0 {
				f.PanelR, f.PanelC, f.LDR = 64, 64, 4*(width-16+last)
				length = (f.Rows-1)*f.LDR/4 + width - 16 + last
			} else {
				f.LDR, f.PanelR = 64, 64*f.Rows
				f.PanelC = f.PanelR
				length = (f.Panels*f.Rows-1)*16 + last
			}
			f.LDC = f.LDR
			residual, results := guarded(r, length), guarded(r, length)
			for _, x := range [][]float32{sums, residual} {
				for i := range x {
					if x[i] = float32(r.NormFloat64()); r.IntN(20) == 0 {
						x[i] = float32(math.NaN())
					}
				}
			}
			add := unsafe.Pointer(nil)
			if r.IntN(2) == 0 {
				add = at(residual, 0)
			}
			var got [2][]uint32
			for i, run := range []func(sums, residual, results unsafe.Pointer){f.Run, f.Portable} {
				for j := range results {
					results[j] = 77
				}
				run(at(sums, 0), add, at(results, 0))
				for _, x := range results {
					if got[i] = append(got[i], math.Float32bits(x)); x != x {
						got[i][len(got[i])-1] = 0x7fc00000
					}
				}
			}
			Expect(got[0]).To(Equal(got[1]), "%+v", f)
		}
	})
})
