package conv_test

import (
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// plainRegion samples a region of an image of one channel, sample by sample, as ONNX defines RoiAlign.
func plainRegion(s conv.RegionSpec, image []float32, region []float32) []float64 {
	shift := 0.0
	if s.HalfPixel {
		shift = 0.5
	}
	x0, y0 := float64(region[0])*s.Scale-shift, float64(region[1])*s.Scale-shift
	w, h := float64(region[2])*s.Scale-shift-x0, float64(region[3])*s.Scale-shift-y0
	if !s.HalfPixel {
		w, h = math.Max(w, 1), math.Max(h, 1)
	}
	at := func(y, x float64) float64 {
		if y < -1 || y > float64(s.H) || x < -1 || x > float64(s.W) {
			return 0
		}
		y, x = min(max(y, 0), float64(s.H-1)), min(max(x, 0), float64(s.W-1))
		ya, xa := math.Floor(y), math.Floor(x)
		pixel := func(y, x float64) float64 {
			return float64(image[int(min(y, float64(s.H-1)))*s.W+int(min(x, float64(s.W-1)))])
		}
		top := pixel(ya, xa)*(1-x+xa) + pixel(ya, xa+1)*(x-xa)
		bottom := pixel(ya+1, xa)*(1-x+xa) + pixel(ya+1, xa+1)*(x-xa)
		return top*(1-y+ya) + bottom*(y-ya)
	}
	var out []float64
	for by := range s.OH {
		for bx := range s.OW {
			sum := 0.0
			for iy := range s.Ratio {
				for ix := range s.Ratio {
					y := y0 + h*(float64(by)+(float64(iy)+0.5)/float64(s.Ratio))/float64(s.OH)
					x := x0 + w*(float64(bx)+(float64(ix)+0.5)/float64(s.Ratio))/float64(s.OW)
					sum += at(y, x)
				}
			}
			out = append(out, sum/float64(s.Ratio*s.Ratio))
		}
	}
	return out
}

var _ = Describe("Regions", func() {
	It("are sampled as ONNX defines RoiAlign, and read and write nothing else", func() {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 5))
			s := conv.RegionSpec{H: 1 + r.IntN(9), W: 1 + r.IntN(9), OH: 1 + r.IntN(8), OW: 1 + r.IntN(8), Ratio: 1 + r.IntN(4),
				Scale: []float64{1, 0.5, 0.25}[r.IntN(3)], HalfPixel: r.IntN(2) == 0}
			front := r.IntN(2) == 0
			planes := make([][]float32, 16)
			block, free := guarded(16*s.H*s.W, front)
			for c := range planes {
				planes[c] = make([]float32, s.H*s.W)
				for i := range planes[c] {
					planes[c][i] = float32(r.NormFloat64())
					block[16*i+c] = planes[c][i]
				}
			}
			region := make([]float32, 4)
			for i := range region {
				region[i] = float32(r.NormFloat64()) * 12 // beyond the image too, and turned over
			}
			for _, t := range isa.Targets() {
				plan, err := conv.NewRegions(t, s)
				Expect(err).NotTo(HaveOccurred())
				height, width := plan.Positions()
				y := conv.RegionAxis{At: make([]int32, 2*height), Weight: make([]float32, height)}
				x := conv.RegionAxis{At: make([]int32, 2*width), Weight: make([]float32, width)}
				dst, freeDst := guarded(16*plan.Bins(), front)
				scratch, freeScratch := guarded(plan.Scratch(), front)
				plan.Locate(region, &y, &x)
				plan.Sample(dst, block, &y, &x, scratch)
				for c, plane := range planes {
					for i, want := range plainRegion(s, plane, region) {
						Expect(float64(dst[16*i+c])).To(BeNumerically("~", want, 2e-5), "seed %d, %v, %+v, region %v, bin %d", seed, t, s, region, i)
					}
				}
				freeDst()
				freeScratch()
			}
			free()
		}
	})

	It("are as large as images and at least of one bin", func() {
		_, err := conv.NewRegions(isa.Targets()[0], conv.RegionSpec{H: 0, W: 4, OH: 1, OW: 1, Ratio: 1, Scale: 1})
		Expect(err).To(MatchError(conv.ErrShape))
	})
})
