package quant

import "math"

// limits are how a kernel bounds the integers that it makes of sums. The generator knows the offsets of the fields.
type limits struct {
	top         float32 // floats above it are bounded first: integers of 32 bits hold it
	middle      int16   // the zero point, 128 less where results are unsigned
	least, most int8    // bounds of the result, shifted alike
	turn        uint8   // what turns the upper bits around then
	order       [16]int32
	plain       uint8 // not 0 where no number is so large that it is bounded first, and all addends are 0
}

// Rounding is how sums become integers of 8 bits where they are made: float32(sum)·Factors + Bias, each step rounded to float32, is
// rounded to an integer, half to even; the zero point is added, and the result bounded. It is immutable.
type Rounding struct {
	factors, bias []float32
	limits        limits
}

// NewRounding returns the rounding to integers of these levels between lo and hi, with a factor and an addend for each column. The
// levels' own scale plays no part.
func NewRounding(factors, bias []float32, to Levels, lo, hi int) *Rounding {
	r := &Rounding{factors: factors, bias: bias, limits: newLimits(to, lo, hi)}
	if plain(factors, bias) {
		r.limits.plain = 1
	}
	return r
}

// plain reports whether sums of 32 bits and these factors make no number that such an integer does not hold, and addends are 0.
func plain(factors, bias []float32) bool {
	for i, f := range factors {
		if !(f >= -0.5 && f <= 0.5) || bias[i] != 0 {
			return false
		}
	}
	return true
}

// newLimits returns those of integers of these levels between lo and hi.
func newLimits(to Levels, lo, hi int) limits {
	shift := to.least() - math.MinInt8
	l := limits{top: 1 << 20, middle: int16(to.Zero - shift), least: int8(to.bound(lo) - shift), most: int8(to.bound(hi) - shift)}
	if shift != 0 {
		l.turn = 0x80
	}
	for i := range l.order { // of four vectors of floats, what stands in a quarter becomes a quarter's words
		l.order[i] = int32(i%4*4 + i/4)
	}
	return l
}

// Rounds reports whether MultiplyRounded makes products of so many rows, quads and panels in less time than Multiply and Requantize.
func (k Kernels) Rounds(rows, quads, panels int) bool {
	return k.rounds(quads) && (k.by == paired && quads <= roundedQuads || !k.pairs(rows, quads, panels, true))
}

// RoundsWords reports whether MultiplyRounded takes panels of so many quads as words, which may be more than bytes are: about zero points.
func (k Kernels) RoundsWords(quads int) bool { return k.WidensPanels() && k.rounds(quads) }

// roundedQuads is the most quads of which sums take less time to be made of products of words, and rounded in registers, than of pairs of bytes, and rounded from memory.
const roundedQuads = 40

// WidensPanels reports whether MultiplyRounded takes less time where panels have been widened: Words.
func (k Kernels) WidensPanels() bool { return k.by == paired }

// Words returns panels of B, of int8 where signed is set, else of uint8, widened to 16 bits: [panels][quads][2][16][2], elements 0 and 1 of each quad, then 2 and 3.
// They count from the zero points of their columns, nil for 0, but for those behind so many channels in as many whole quads: they are 0.
func (k Kernels) Words(packed []byte, quads, panels int, signed bool, zeros []int32, channels int) []int16 {
	dst := make([]int16, len(packed[:panels*PanelBytes(quads)]))
	for i, b := range packed[:len(dst)] {
		at, v := i%(4*Panel), number(b, signed)
		if quad := i / (4 * Panel); zeros != nil {
			if v -= zeros[quad/quads*Panel+at/4]; quad%quads%Quads(channels)*4+at%4 >= channels {
				v = 0
			}
		}
		dst[i-at+at/2%2*2*Panel+at/4*2+at%2] = int16(v)
	}
	return dst
}

// rounds reports whether MultiplyRounded makes products of so many quads.
func (k Kernels) rounds(quads int) bool {
	return quads > 0 && (k.by == vnni || k.by == paired && quads <= nearQuads)
}

// MultiplyRounded is Multiply whose sums are rounded: it writes the integers of cols columns, the first of which has factor number
// from, to rows ldd apart in dst. The product's own LDC plays no part. Tiles are chosen only where sums have TileSums elements, which
// they overwrite. It panics where Rounds is false of as many quads, whatever the rows and panels.
func (k Kernels) MultiplyRounded(p *Product, dst []byte, ldd int, a []byte, rows []int, b []byte, start []int32, r *Rounding, from, cols int, sums []int32) {
	n, quads, panels := len(rows), len(p.Segments)*p.Quads, Panels(cols)
	if n == 0 || cols <= 0 {
		return
	}
	if !k.rounds(quads) || ldd < 0 {
		panic("quant: no kernel rounds such sums")
	}
	params := tileParams{ldc: ldd, rounding: &r.limits, factors: first(r.factors[from:], panels*Panel), bias: first(r.bias[from:], panels*Panel),
		left: cols}
	if p.Words != nil {
		_ = p.Words[:panels*PanelBytes(quads)]
	}
	p.check(a, rows)
	c, aa, bb, ss := first(dst, (n-1)*ldd+cols), first(a, 1), first(b, panels*PanelBytes(quads)), first(start, panels*Panel)
	switch {
	case len(sums) >= TileSums && k.roundsByTiles(rows, quads, panels):
		k.roundTiles(p, &params, c, aa, rows, bb, ss, panels, sums)
	case k.by == vnni:
		k.multiplyBytes(p, &params, c, aa, rows, bb, ss, panels)
	case quads <= fewQuads: // less to clear
		var near [4 * Height * fewQuads]int16
		k.roundWide(p, &params, near[:], c, aa, rows, bb, ss)
	default:
		var near [4 * Height * nearQuads]int16
		k.roundWide(p, &params, near[:], c, aa, rows, bb, ss)
	}
}

// roundedTiles is the most tiles of a call of roundWide.
const roundedTiles = 16

// roundWide multiplies rows that are widened, those of several tiles at a time, and rounds the sums.
func (k Kernels) roundWide(p *Product, params *tileParams, near []int16, c, a *byte, rows []int, b *byte, start *int32) {
	quads, cols := len(p.Segments)*p.Quads, params.left
	params.lda, params.quads = 8*quads, quads
	var last [roundedTiles * Height * Panel]byte // of a panel with fewer columns
	for {
		height := min(Height, len(rows))
		tiles := max(1, min(len(rows)/height, len(near)/(4*quads*height), roundedTiles, callQuads/(quads*height)))
		done, x := tiles*height, *params
		if p.Words != nil {
			k.plainSome(p, near, a, rows[:done])
		} else {
			k.widenSome(p, near, a, rows[:done], 0, quads)
		}
		for j := 0; ; j += Panel {
			bb, from, to := advance(b, j/Panel*PanelBytes(quads)), advance(start, j), advance(c, j)
			if x.left < Panel {
				x.ldc, to = Panel, &last[0]
			}
			if p.Words != nil {
				callWordsRounded(k.set, height, &x, &near[0], &p.Words[j*4*quads], from, to, tiles)
			} else {
				callWideRounded(k.set, p.Signed, height, &x, &near[0], bb, from, to, tiles)
			}
			if x.left < Panel {
				for r := range done {
					copy(view(advance(c, r*params.ldc+j), x.left), last[r*Panel:])
				}
			}
			if cols-j <= Panel {
				break
			}
			x.pass(Panel)
		}
		if rows = rows[done:]; len(rows) == 0 {
			return
		}
		c = advance(c, done*params.ldc)
	}
}

// pass moves on by so many columns.
func (p *tileParams) pass(columns int) {
	if p.rounding != nil {
		p.factors, p.bias, p.left = advance(p.factors, columns), advance(p.bias, columns), p.left-columns
	}
}
