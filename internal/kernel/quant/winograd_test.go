package quant_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = Describe("convolutions of 3 x 3 taps by Winograd's algorithm", func() {
	It("are exact sums", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(12) {
				s := &quant.Squares{Channels: 16 * (1 + r.IntN(3)), Panels: 1 + r.IntN(2), Signed: r.IntN(2) == 0}
				height, width := 1+r.IntN(5), 1+r.IntN(9) // of the result
				down, across := (height+1)/2, (width+1)/2
				s.Line = (2*across+2)*s.Channels + r.IntN(9)
				image := fillBytes(guarded[byte]((2*down+1)*s.Line+(2*across+2)*s.Channels, front), r)
				packed := fillBytes(guarded[byte](s.Panels*quant.PanelBytes(9*s.Channels/4), front), r)
				s.Weights = k.SquareWeights(packed, s.Channels, s.Panels, s.Signed)
				ld, tiles := quant.Panel*s.Panels+r.IntN(3), down*across+r.IntN(3)
				pixels, products := guarded[int16](s.PixelWords(tiles), front), guarded[int32](quant.SquarePoints*tiles*quant.Panel, front)
				got, from := guarded[int32]((height*width-1)*ld+quant.Panel*s.Panels, front), start(quant.Panel*s.Panels, r, front)
				for y := range down {
					k.SquarePixels(s, pixels, image[2*y*s.Line:], y*across, across, tiles)
				}
				for p := range s.Panels {
					k.SquareProducts(s, products, pixels, p, tiles)
					for y := range down {
						k.SquareSums(s, got[2*y*width*ld+p*quant.Panel:], ld, products, from[p*quant.Panel:], y*across, tiles, width, min(2, height-2*y))
					}
				}
				x, w := valuesOf(image, !s.Signed), valuesOf(packed, s.Signed)
				for i := range height * width {
					for j := range quant.Panel * s.Panels {
						want := int(from[j])
						for t := range 9 * s.Channels {
							tap, ch := t/s.Channels, t%s.Channels
							want += x[(i/width+tap/3)*s.Line+(i%width+tap%3)*s.Channels+ch] * w[j/quant.Panel*quant.PanelBytes(9*s.Channels/4)+t/4*64+j%16*4+t%4]
						}
						Expect(int(got[i*ld+j])).To(Equal(want), "pixel %d of %d x %d, column %d, %d channels", i, height, width, j, s.Channels)
					}
				}
			}
		})
	})
})
