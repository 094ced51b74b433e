package quant

import "math"

// limits are how a kernel bounds the integers that it makes of sums. The generator knows the offsets of the fields.
type limits struct {
	top         float32 // floats above it are bounded first: integers of 32 bits hold it
	middle      int16   // the zero point, 128 less where results are unsigned
	least, most int8    // bounds of the result, shifted alike
	turn        uint8   // what turns the upper bits around then
	order       [16]int32
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
	return &Rounding{factors: factors, bias: bias, limits: newLimits(to, lo, hi)}
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

// Rounds reports whether there are kernels that round sums as they make them: MultiplyRounded and Weigh.
func (k Kernels) Rounds() bool { return k.by == vnni }

// MultiplyRounded is Multiply whose sums are rounded: it writes the integers of cols columns, the first of which has factor number
// from, to rows ldd apart in dst. The product's own LDC plays no part. Tiles are chosen only where sums have TileSums elements, which
// they overwrite. It panics where Rounds is false, or nothing is summed.
func (k Kernels) MultiplyRounded(p *Product, dst []byte, ldd int, a []byte, rows []int, b []byte, start []int32, r *Rounding, from, cols int, sums []int32) {
	n, quads, panels := len(rows), len(p.Segments)*p.Quads, Panels(cols)
	if n == 0 || cols <= 0 {
		return
	}
	if !k.Rounds() || quads == 0 || ldd < 0 {
		panic("quant: no kernel rounds such sums")
	}
	params := tileParams{ldc: ldd, rounding: &r.limits, factors: first(r.factors[from:], panels*Panel), bias: first(r.bias[from:], panels*Panel),
		left: cols}
	p.check(a, rows)
	c, aa, bb, ss := first(dst, (n-1)*ldd+cols), first(a, 1), first(b, panels*PanelBytes(quads)), first(start, panels*Panel)
	if len(sums) >= TileSums && k.roundsByTiles(rows, quads, panels) {
		k.roundTiles(p, &params, c, aa, rows, bb, ss, panels, sums)
		return
	}
	k.multiplyBytes(p, &params, c, aa, rows, bb, ss, panels)
}

// pass moves on by so many columns.
func (p *tileParams) pass(columns int) {
	if p.rounding != nil {
		p.factors, p.bias, p.left = advance(p.factors, columns), advance(p.bias, columns), p.left-columns
	}
}
