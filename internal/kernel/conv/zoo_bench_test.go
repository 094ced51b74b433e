package conv_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// BenchmarkZoo runs layer shapes of well-known nets that are awkward: channels that are not multiples of 32, odd widths,
// long kernels, tiny maps. The share of the peak counts padding and missing channels of the last block as work.
func BenchmarkZoo(b *testing.B) {
	for _, r := range []struct {
		ic, oc, h, w, kh, kw, stride int
		planar                       bool
	}{
		{32, 16, 112, 112, 1, 1, 1, false}, {96, 24, 56, 56, 1, 1, 1, false}, {144, 40, 28, 28, 1, 1, 1, false}, {40, 240, 28, 28, 1, 1, 1, false},
		{240, 80, 14, 14, 1, 1, 1, false}, {480, 112, 14, 14, 1, 1, 1, false}, {112, 672, 14, 14, 1, 1, 1, false}, {672, 192, 7, 7, 1, 1, 1, false},
		{192, 1152, 7, 7, 1, 1, 1, false}, {1152, 320, 7, 7, 1, 1, 1, false}, {58, 58, 28, 28, 1, 1, 1, false}, {116, 116, 14, 14, 1, 1, 1, false},
		{48, 64, 35, 35, 5, 5, 1, false}, {64, 96, 35, 35, 3, 3, 1, false}, {128, 128, 17, 17, 1, 7, 1, false}, {192, 192, 17, 17, 7, 1, 1, false},
		{448, 384, 8, 8, 3, 3, 1, false}, {384, 384, 8, 8, 1, 3, 1, false}, {288, 384, 35, 35, 3, 3, 2, false}, {32, 64, 147, 147, 3, 3, 1, false},
		{128, 16, 55, 55, 1, 1, 1, false}, {128, 32, 28, 28, 3, 3, 1, false}, {128, 32, 7, 7, 3, 3, 1, false}, {512, 512, 14, 14, 3, 3, 1, false},
		{64, 128, 112, 112, 3, 3, 1, false}, {3, 768, 224, 224, 16, 16, 16, true}, {64, 64, 160, 160, 3, 3, 1, false}, {64, 2, 160, 160, 1, 1, 1, false},
		{672, 80, 10, 10, 1, 1, 1, false}, {480, 256, 5, 5, 3, 3, 2, false}, {256, 546, 2, 2, 3, 3, 1, false}, {960, 240, 1, 1, 1, 1, 1, false},
	} {
		b.Run(fmt.Sprintf("k=%dx%d/s=%d/%d-%d@%dx%d", r.kh, r.kw, r.stride, r.ic, r.oc, r.h, r.w), func(b *testing.B) {
			s := conv.Spec{N: 1, C: r.ic, OC: r.oc, Map: conv.Map{H: r.h, W: r.w, Kernel: [2]int{r.kh, r.kw}, Stride: [2]int{r.stride, r.stride}}}
			s.Pad = [4]int{(r.kh - 1) / 2, (r.kw - 1) / 2, (r.kh - 1) / 2, (r.kw - 1) / 2}
			if r.planar {
				s.Source, s.Pad = conv.Planar, [4]int{}
			}
			s.Hi = float32(math.Inf(1))
			p, err := conv.NewConv(isa.Host(), s)
			if err != nil {
				b.Fatal(err)
			}
			_, _, oh, ow := p.Shape()
			blocks := func(c int) int { return (c + 15) / 16 }
			steps := float64(r.ic) * float64(r.kh*r.kw*oh*ow) * float64(blocks(r.oc))
			benchPlan(b, isa.Host(), p, blocks(r.ic)*16*r.h*r.w, blocks(r.oc)*16*oh*ow, steps, &s)
		})
	}
}
