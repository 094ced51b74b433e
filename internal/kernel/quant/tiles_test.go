package quant_test

import (
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/testshare"
)

// windows returns the offsets of rows that lie in lines, as the windows of a convolution do: so many of a line at one distance, from
// the middle of a line on.
func windows(r *rand.Rand) []int {
	line, step := 1+r.IntN(60), 1+r.IntN(80)
	rows := make([]int, 1+r.IntN(100))
	first := r.IntN(line)
	jump := line*step + r.IntN(200)
	for i := range rows {
		rows[i] = (first+i)/line*jump + (first+i)%line*step
	}
	if r.IntN(4) == 0 { // one that lies elsewhere
		rows[r.IntN(len(rows))] = r.IntN(100)
	}
	return rows
}

// lined is a random product of rows that lie in lines.
type lined struct {
	quant.Product
	rows   []int
	a, b   []byte
	panels int
	start  []int32
}

func newLined(r *rand.Rand, front bool) *lined {
	p := &lined{Product: quant.Product{Segments: make([]int, 1+r.IntN(4)), Quads: 1 + r.IntN(36), Signed: r.IntN(2) == 0}, rows: windows(r), panels: 1 + r.IntN(9)}
	for i := range p.Segments {
		p.Segments[i] = r.IntN(500)
	}
	p.LDC = quant.Panel*p.panels + r.IntN(20)
	p.a = fillBytes(guarded[byte](slices.Max(p.rows)+slices.Max(p.Segments)+4*p.Quads, front), r)
	p.b = fillBytes(guarded[byte](p.panels*len(p.Segments)*quant.PanelBytes(p.Quads), front), r)
	p.start = start(quant.Panel*p.panels, r, front)
	return p
}

var _ = Describe("products of many rows, with and without tiles", func() {
	wide := quant.For(isa.Target{})

	It("are the same", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(15) {
				p := newLined(r, front)
				n := (len(p.rows)-1)*p.LDC + p.panels*quant.Panel
				got, want := guarded[int32](n, front), make([]int32, n)
				for i := range got { // what lies between rows stays
					got[i], want[i] = 7, 7
				}
				k.Multiply(&p.Product, got, p.a, p.rows, p.b, p.start, p.panels)
				wide.Multiply(&p.Product, want, p.a, p.rows, p.b, p.start, p.panels)
				Expect(slices.Equal(got, want)).To(BeTrue(), "%d rows of %d segments of %d quads, %d panels", len(p.rows), len(p.Segments), p.Quads, p.panels)
			}
		})
	})

	It("are rounded to the same", func() {
		plain := quant.For(isa.Target{})
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(15) {
				p := newLined(r, front)
				if !k.Rounds(quant.Height, len(p.Segments)*p.Quads, 1) {
					continue
				}
				cols, at := p.panels*quant.Panel-r.IntN(quant.Panel), r.IntN(5)
				s, to, lo, hi := rounding(at+quant.Panel*p.panels, r, front)
				ldd := cols + r.IntN(3)
				n := (len(p.rows)-1)*ldd + cols
				got, want := guarded[byte](n, front), make([]byte, n)
				scratch := guarded[int32](quant.TileSums, front)
				rounding := quant.NewRounding(s.Factors, s.Bias, to, lo, hi)
				k.MultiplyRounded(&p.Product, got, ldd, p.a, p.rows, p.b, p.start, rounding, at, cols, scratch)
				c := make([]int32, len(p.rows)*p.LDC)
				plain.Multiply(&p.Product, c, p.a, p.rows, p.b, p.start, p.panels)
				s.Rows, s.Cols, s.Sums, s.LD, s.Factors, s.Bias = len(p.rows), cols, c, p.LDC, s.Factors[at:], s.Bias[at:]
				plain.Requantize(want, ldd, s, to, lo, hi)
				for i := range p.rows {
					Expect(slices.Equal(got[i*ldd:][:cols], want[i*ldd:][:cols])).To(BeTrue(), "row %d of %d, %d columns", i, len(p.rows), cols)
				}
			}
		})
	})

	It("have tiles where the processor has them, which the target may do without", func() {
		Expect(quant.For(isa.Host()).Tiles()).To(Equal(isa.Host().Int8Tiles()))
		Expect(quant.For(isa.Host().WithoutTiles()).Tiles()).To(BeFalse())
	})
})
