package quant

import "math"

// Widen writes src[i] - zero to dst[i], for src of int8 where signed is set, else of uint8, and a zero point of that type.
func (k Kernels) Widen(dst []int16, src []byte, signed bool, zero int) {
	groups := len(src) / 16
	if groups > 0 {
		d, s := first(dst, len(src)), first(src, len(src))
		for at := 0; at < groups; at += callElements / 16 {
			widen(k.set, signed, advance(d, 16*at), advance(s, 16*at), zero, min(groups-at, callElements/16))
		}
	}
	if rest := src[16*groups:]; len(rest) > 0 {
		genericWiden(signed, &dst[16*groups : len(src)][0], &rest[0], zero, len(rest))
	}
}

// number returns the integer that a byte is.
func number(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}

func genericWiden(signed bool, dst *int16, src *byte, zero, n int) {
	d := view(dst, n)
	for i, b := range view(src, n) {
		d[i] = int16(number(b, signed) - int32(zero))
	}
}

// Sum returns the sum of a row's elements.
func (k Kernels) Sum(row []int16) int32 {
	total, groups := int32(0), len(row)/16
	for at := 0; at < groups; at += callElements / 16 {
		n := min(groups-at, callElements/16)
		total += sum(k.set, first(row[16*at:], 16*n), n)
	}
	if rest := row[16*groups:]; len(rest) > 0 {
		total += genericSum(&rest[0], len(rest))
	}
	return total
}

func genericSum(src *int16, n int) int32 {
	total := int32(0)
	for _, x := range view(src, n) {
		total += int32(x)
	}
	return total
}

// Pack writes B[k, n] of bytes, rows ldb apart, as panels: [Panels(n)][Pairs(k)][16][2], with zeros where there is no column or k.
// dst holds Panels(n)·PanelBytes(Pairs(k)) bytes.
func (k Kernels) Pack(dst, src []byte, rows, n, ldb int) {
	for pair := range Pairs(rows) {
		k.PackPair(dst, src, rows, n, ldb, pair)
	}
}

// PackPair is Pack for one pair of rows.
func (k Kernels) PackPair(dst, src []byte, rows, n, ldb, pair int) {
	step := PanelBytes(Pairs(rows))
	d := dst[pair*2*Panel : Panels(n)*step]
	even := src[2*pair*ldb:][:n]
	var odd []byte
	if 2*pair+1 < rows {
		odd = src[(2*pair+1)*ldb:][:n]
	}
	full := n / Panel
	if odd == nil {
		full = 0
	}
	for at := 0; at < full; at += callElements / Panel {
		interleave(k.set, &d[at*step], &even[at*Panel], &odd[at*Panel], min(full-at, callElements/Panel), step)
	}
	for p := full; p < Panels(n); p++ {
		row := d[p*step:][:2*Panel]
		clear(row)
		for j := p * Panel; j < min(n, (p+1)*Panel); j++ {
			row[2*(j-p*Panel)] = even[j]
			if odd != nil {
				row[2*(j-p*Panel)+1] = odd[j]
			}
		}
	}
}

func genericInterleave(dst, even, odd *byte, n, ldd int) {
	e, o := view(even, 16*n), view(odd, 16*n)
	for g := range n {
		d := view(advance(dst, g*ldd), 32)
		for j := range 16 {
			d[2*j], d[2*j+1] = e[16*g+j], o[16*g+j]
		}
	}
}

// Quantize writes the integers of src. NaN becomes the zero point.
func (k Kernels) Quantize(dst []byte, src []float32, to Levels) {
	l, groups := to.all(), len(src)/16
	if groups > 0 {
		d, s := first(dst, len(src)), first(src, len(src))
		for at := 0; at < groups; at += callElements / 16 {
			quantize(k.set, advance(d, 16*at), advance(s, 16*at), &l, min(groups-at, callElements/16))
		}
	}
	if rest := src[16*groups:]; len(rest) > 0 {
		genericQuantize(&dst[16*groups : len(src)][0], &rest[0], &l, len(rest))
	}
}

// round bounds x, rounds it half to even and adds the zero point.
func (l *levels) round(x float32) byte {
	return byte(int32(math.RoundToEven(float64(min(max(x, l.lo), l.hi)))) + l.zero)
}

func genericQuantize(dst *byte, src *float32, l *levels, n int) {
	d := view(dst, n)
	for i, x := range view(src, n) {
		x /= l.scale
		if x != x {
			x = 0
		}
		d[i] = l.round(x)
	}
}

// Dequantize writes the floats of src.
func (k Kernels) Dequantize(dst []float32, src []byte, of Levels) {
	l, groups := of.all(), len(src)/8
	if groups > 0 {
		d, s := first(dst, len(src)), first(src, len(src))
		for at := 0; at < groups; at += callElements / 8 {
			dequantize(k.set, of.Signed, advance(d, 8*at), advance(s, 8*at), &l, min(groups-at, callElements/8))
		}
	}
	if rest := src[8*groups:]; len(rest) > 0 {
		genericDequantize(of.Signed, &dst[8*groups : len(src)][0], &rest[0], &l, len(rest))
	}
}

func genericDequantize(signed bool, dst *float32, src *byte, l *levels, n int) {
	d := view(dst, n)
	for i, b := range view(src, n) {
		d[i] = float32(number(b, signed)-l.zero) * l.scale
	}
}

// Range is the range of numbers that was seen. Its zero value is [0, 0].
type Range struct {
	Lo, Hi float32
	NaN    bool // one was no number: Lo and Hi mean nothing then
}

// Join widens a range by another.
func (r *Range) Join(o Range) { *r = Range{min(r.Lo, o.Lo), max(r.Hi, o.Hi), r.NaN || o.NaN} }

// extremes are the least and greatest elements of each lane, and bits that are set where one was NaN.
type extremes struct {
	lo, hi [8]float32
	nan    [8]uint32
}

// Range returns the range of the elements of src and 0.
func (k Kernels) Range(src []float32) Range {
	var e extremes
	groups := len(src) / 8
	for at := 0; at < groups; at += callElements / 8 {
		n := min(groups-at, callElements/8)
		extent(k.set, &e, first(src[8*at:], 8*n), n)
	}
	if rest := src[8*groups:]; len(rest) > 0 {
		genericExtent(&e, &rest[0], len(rest))
	}
	var r Range
	for i := range 8 {
		r.Join(Range{e.lo[i], e.hi[i], e.nan[i] != 0})
	}
	return r
}

func genericExtent(dst *extremes, src *float32, n int) {
	for i, x := range view(src, n) {
		lane := i % 8
		if x != x {
			dst.nan[lane] = math.MaxUint32
		}
		dst.lo[lane], dst.hi[lane] = min(dst.lo[lane], x), max(dst.hi[lane], x)
	}
}

// Sums are rows of sums that become results: (sum + Add)·Factors + Bias, each step rounded to float32, with one of these for each
// column.
type Sums struct {
	Rows, Cols int
	Sums       []int32
	LD         int // distance of rows of Sums, in elements
	Add        []int32
	Factors    []float32
	Bias       []float32
}

// check panics where a slice is too short for the sums, or for results whose rows lie ldd apart.
func (s *Sums) check(dst, ldd int) {
	_ = s.Sums[(s.Rows-1)*s.LD+s.Cols-1]
	_, _, _ = s.Add[s.Cols-1], s.Factors[s.Cols-1], s.Bias[s.Cols-1]
	if dst < (s.Rows-1)*ldd+s.Cols || ldd < 0 || s.LD < 0 {
		panic("quant: results do not fit")
	}
}

// Requantize rounds the results of sums, adds the zero point and bounds them by lo and hi, integers of the type. The levels' own
// scale plays no part. Rows lie ldd apart in dst, which may share memory with the sums if each row of it begins with its own.
func (k Kernels) Requantize(dst []byte, ldd int, s Sums, to Levels, lo, hi int) {
	if s.Rows == 0 || s.Cols == 0 {
		return
	}
	s.check(len(dst), ldd)
	l := to.within(max(lo, to.least()), min(hi, to.least()+math.MaxUint8))
	groups := s.Cols / 16
	if groups > 0 {
		requantize(k.set, &dst[0], &s.Sums[0], &s.Add[0], &s.Factors[0], &s.Bias[0], &l, groups, s.Rows, ldd, s.LD)
	}
	if at := 16 * groups; at < s.Cols {
		genericRequantize(&dst[at], &s.Sums[at], &s.Add[at], &s.Factors[at], &s.Bias[at], &l, s.Cols-at, s.Rows, ldd, s.LD)
	}
}

func genericRequantize(dst *byte, sums, add *int32, factors, bias *float32, l *levels, n, rows, ldd, lds int) {
	a, f, b := view(add, n), view(factors, n), view(bias, n)
	for r := range rows {
		d := view(advance(dst, r*ldd), n)
		for i, s := range view(advance(sums, r*lds), n) {
			scaled := float32(s+a[i]) * f[i]
			d[i] = l.round(float32(scaled) + b[i])
		}
	}
}

// Scale writes the results of sums to rows ldd apart in dst, which may be the memory of the sums.
func (k Kernels) Scale(dst []float32, ldd int, s Sums) {
	if s.Rows == 0 || s.Cols == 0 {
		return
	}
	s.check(len(dst), ldd)
	groups := s.Cols / 8
	if groups > 0 {
		scale(k.set, &dst[0], &s.Sums[0], &s.Add[0], &s.Factors[0], &s.Bias[0], groups, s.Rows, ldd, s.LD)
	}
	if at := 8 * groups; at < s.Cols {
		genericScale(&dst[at], &s.Sums[at], &s.Add[at], &s.Factors[at], &s.Bias[at], s.Cols-at, s.Rows, ldd, s.LD)
	}
}

func genericScale(dst *float32, sums, add *int32, factors, bias *float32, n, rows, ldd, lds int) {
	a, f, b := view(add, n), view(factors, n), view(bias, n)
	for r := range rows {
		d := view(advance(dst, r*ldd), n)
		for i, s := range view(advance(sums, r*lds), n) {
			scaled := float32(s+a[i]) * f[i]
			d[i] = float32(scaled) + b[i]
		}
	}
}

// Larger writes the larger of a and b, slices of one length, to dst, which may be either of them.
func (k Kernels) Larger(dst, a, b []byte, signed bool) {
	n := len(dst)
	groups := n / 16
	if groups > 0 {
		larger(k.set, signed, first(dst, n), first(a, n), first(b, n), groups)
	}
	switch at := 16 * groups; {
	case at == n:
	case groups > 0: // the last group overlaps the one before, and finds the same there
		larger(k.set, signed, &dst[n-16], &a[n-16], &b[n-16], 1)
	default:
		genericLarger(signed, first(dst, n), first(a, n), first(b, n), n)
	}
}

func genericLarger(signed bool, dst, a, b *byte, n int) {
	d, y := view(dst, n), view(b, n)
	for i, x := range view(a, n) {
		if number(x, signed) < number(y[i], signed) {
			x = y[i]
		}
		d[i] = x
	}
}

// Subtract takes times·what from sums, both of one length.
func (k Kernels) Subtract(sums, what []int32, times int32) {
	n := len(sums)
	groups := n / 8
	if groups > 0 {
		subtract(k.set, first(sums, n), first(what, n), int(times), groups)
	}
	for i := 8 * groups; i < n; i++ {
		sums[i] -= times * what[i]
	}
}

func genericSubtract(sums, what *int32, times, n int) {
	s := view(sums, n)
	for i, w := range view(what, n) {
		s[i] -= int32(times) * w
	}
}
