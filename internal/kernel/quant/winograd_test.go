package quant_test

import (
	"bytes"
	"math/rand/v2"
	"slices"

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
				zeros := make([]int32, quant.Panel*s.Panels)
				if r.IntN(2) == 0 {
					for j, z := range valuesOf(fillBytes(make([]byte, len(zeros)), r), s.Signed) {
						zeros[j] = int32(z)
					}
					s.Weights = k.SquareWeights(packed, s.Channels, s.Panels, s.Signed, zeros)
				} else {
					s.Weights = k.SquareWeights(packed, s.Channels, s.Panels, s.Signed, nil)
				}
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
							want += x[(i/width+tap/3)*s.Line+(i%width+tap%3)*s.Channels+ch] *
								(w[j/quant.Panel*quant.PanelBytes(9*s.Channels/4)+t/4*64+j%16*4+t%4] - int(zeros[j]))
						}
						Expect(int(got[i*ld+j])).To(Equal(want), "pixel %d of %d x %d, column %d, %d channels", i, height, width, j, s.Channels)
					}
				}
			}
		})
	})

	It("hold the largest sums in 32 bits", func() {
		everywhere(func(k quant.Kernels, _ *rand.Rand, front bool) {
			for _, most := range []struct {
				channels, weight int
				zeros            []int32
			}{{quant.SquareChannels, -128, nil}, {quant.SquareChannelsAbout, 255, slices.Repeat([]int32{-128}, quant.Panel)}} {
				s := &quant.Squares{Channels: most.channels / 16 * 16, Panels: 1, Signed: true}
				s.Line = 4 * s.Channels
				image, packed := bytes.Repeat([]byte{255}, 4*s.Line), make([]byte, quant.PanelBytes(9*s.Channels/4))
				for i := range packed {
					packed[i] = 127 // which is 255 above -128
					if most.zeros == nil {
						packed[i] = 128 // which is -128
					}
				}
				s.Weights = k.SquareWeights(packed, s.Channels, 1, true, most.zeros)
				pixels, products := guarded[int16](s.PixelWords(1), front), guarded[int32](quant.SquarePoints*quant.Panel, front)
				got := guarded[int32](4*quant.Panel, front)
				k.SquarePixels(s, pixels, image, 0, 1, 1)
				k.SquareProducts(s, products, pixels, 0, 1)
				k.SquareSums(s, got, quant.Panel, products, make([]int32, quant.Panel), 0, 1, 2, 2)
				Expect(got).To(HaveEach(int32(9 * 255 * most.weight * s.Channels)))
			}
		})
	})
})
