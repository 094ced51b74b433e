package quant

import (
	"encoding/binary"
	"math"
)

// Flip writes src with the upper bit of each byte turned around to dst, which may be src: as an integer of the other signedness each
// is 128 more than it was as int8, or less than as uint8.
func (k Kernels) Flip(dst, src []byte) {
	groups := len(src) / 32
	if groups > 0 {
		d, s := first(dst, len(src)), first(src, len(src))
		for at := 0; at < groups; at += callElements / 16 {
			flip(k.set, advance(d, 32*at), advance(s, 32*at), min(groups-at, callElements/16))
		}
	}
	if rest := src[32*groups:]; len(rest) > 0 {
		genericFlip(&dst[32*groups : len(src)][0], &rest[0], len(rest))
	}
}

func genericFlip(dst, src *byte, n int) {
	d := view(dst, n)
	for i, b := range view(src, n) {
		d[i] = b ^ 0x80
	}
}

// Look writes table[src[i]] to dst[i]; dst may be src.
func (k Kernels) Look(dst, src []byte, table *[256]byte) {
	groups := len(src) / 64
	if groups > 0 {
		d, s := first(dst, len(src)), first(src, len(src))
		for at := 0; at < groups; at += callElements / 64 {
			look(k.set, k.permutes, advance(d, 64*at), advance(s, 64*at), table, min(groups-at, callElements/64))
		}
	}
	if rest := src[64*groups:]; len(rest) > 0 {
		genericLook(&dst[64*groups : len(src)][0], &rest[0], table, len(rest))
	}
}

func genericLook(dst, src *byte, table *[256]byte, n int) {
	d := view(dst, n)
	for i, b := range view(src, n) {
		d[i] = table[b]
	}
}

// number returns the integer that a byte is.
func number(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}

// Sum returns the sum of a row's elements, int8 where signed is set, else uint8.
func (k Kernels) Sum(row []byte, signed bool) int32 {
	total, groups := int32(0), len(row)/16
	for at := 0; at < groups; at += callElements / 16 {
		n := min(groups-at, callElements/16)
		total += sum(k.set, signed, first(row[16*at:], 16*n), n)
	}
	if rest := row[16*groups:]; len(rest) > 0 {
		total += genericSum(signed, &rest[0], len(rest))
	}
	return total
}

// manySummed is from how many elements on a sum is made by vectors; below, a call takes longer than eight elements at a time.
const manySummed = 64

// Sums writes the sums of the first n of each width elements of src, one for each of dst, int8 where signed is set, else uint8.
func (k Kernels) Sums(dst []int32, src []byte, width, n int, signed bool) {
	if n >= manySummed {
		for i := range dst {
			dst[i] = k.Sum(src[i*width:][:n], signed)
		}
		return
	}
	const even, ones = 0x00ff00ff00ff00ff, 0x0001000100010001 // of four words
	upper, less := uint64(0), int32(0)
	if signed { // 128 more, and unsigned
		upper, less = 0x8080808080808080, int32(128*n)
	}
	for i := range dst {
		row, total := src[i*width:], int32(0)
		at := 0
		for ; at+8 <= n || at < n && len(row) >= at+8; at += 8 {
			x := binary.LittleEndian.Uint64(row[at:]) ^ upper
			if left := n - at; left < 8 {
				x <<= 8 * (8 - left)
			}
			total += int32((x&even + x>>8&even) * ones >> 48)
		}
		for _, b := range row[min(at, n):n] {
			total += int32(b ^ byte(upper))
		}
		dst[i] = total - less
	}
}

func genericSum(signed bool, src *byte, n int) int32 {
	total := int32(0)
	for _, b := range view(src, n) {
		total += number(b, signed)
	}
	return total
}

// Pack writes B[k, n] of bytes, rows ldb apart, as panels: [Panels(n)][Quads(k)][16][4], with zeros where there is no column or k.
// dst holds Panels(n)·PanelBytes(Quads(k)) bytes.
func (k Kernels) Pack(dst, src []byte, rows, n, ldb int) {
	for quad := range Quads(rows) {
		k.PackQuad(dst, src, rows, n, ldb, quad)
	}
}

// PackQuad is Pack for one quad of rows.
func (k Kernels) PackQuad(dst, src []byte, rows, n, ldb, quad int) {
	step := PanelBytes(Quads(rows))
	d := dst[quad*4*Panel : Panels(n)*step]
	src, rows = src[4*quad*ldb:], min(rows-4*quad, 4)
	full := 0
	if rows == 4 {
		full = n / Panel
	}
	if full > 0 {
		first(src, 3*ldb+n)
	}
	for at := 0; at < full; at += callElements / Panel {
		interleave(k.set, &d[at*step], &src[at*Panel], min(full-at, callElements/Panel), step, ldb)
	}
	for p := full; p < Panels(n); p++ {
		panel := d[p*step:][:4*Panel]
		clear(panel)
		for r := range rows {
			for j, b := range src[r*ldb+p*Panel : r*ldb+min(n, (p+1)*Panel)] {
				panel[4*j+r] = b
			}
		}
	}
}

func genericInterleave(dst, src *byte, n, ldd, lds int) {
	for g := range n {
		d := view(advance(dst, g*ldd), 64)
		for r := range 4 {
			for j, b := range view(advance(src, r*lds+16*g), 16) {
				d[4*j+r] = b
			}
		}
	}
}

// Quantize writes the integers of src. NaN becomes the least integer.
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

// round bounds x, rounds it half to even and adds the zero point. NaN counts as the least.
func (l *levels) round(x float32) byte {
	if x != x {
		x = l.lo
	}
	return byte(nearest(min(max(x, l.lo), l.hi)) + l.zero)
}

// nearest rounds numbers of less than 1<<22 half to even: behind so large a summand floats have no fraction.
func nearest(x float32) int32 {
	const large = 3 << 22
	return int32(math.Float32bits(x+large)) - 0x4B400000
}

func genericQuantize(dst *byte, src *float32, l *levels, n int) {
	d := view(dst, n)
	for i, x := range view(src, n) {
		d[i] = l.round(x / l.scale)
	}
}

// Dequantize writes the floats of src.
func (k Kernels) Dequantize(dst []float32, src []byte, of Levels) {
	l, groups := of.all(), len(src)/16
	if groups > 0 {
		d, s := first(dst, len(src)), first(src, len(src))
		for at := 0; at < groups; at += callElements / 16 {
			dequantize(k.set, of.Signed, advance(d, 16*at), advance(s, 16*at), &l, min(groups-at, callElements/16))
		}
	}
	if rest := src[16*groups:]; len(rest) > 0 {
		genericDequantize(of.Signed, &dst[16*groups : len(src)][0], &rest[0], &l, len(rest))
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

// Sums are rows of sums that become results: sum·Factors + Bias, each step rounded to float32, with one of these for each column.
type Sums struct {
	Rows, Cols int
	Sums       []int32
	LD         int // distance of rows of Sums, in elements
	Factors    []float32
	Bias       []float32
}

// check panics where a slice is too short for the sums, or for results whose rows lie ldd apart.
func (s *Sums) check(dst, ldd int) {
	_ = s.Sums[(s.Rows-1)*s.LD+s.Cols-1]
	_, _ = s.Factors[s.Cols-1], s.Bias[s.Cols-1]
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
	l := to.within(to.bound(lo), to.bound(hi))
	groups := s.Cols / 16
	if groups > 0 {
		requantize(k.set, &dst[0], &s.Sums[0], &s.Factors[0], &s.Bias[0], &l, groups, s.Rows, ldd, s.LD)
	}
	if at := 16 * groups; at < s.Cols {
		genericRequantize(&dst[at], &s.Sums[at], &s.Factors[at], &s.Bias[at], &l, s.Cols-at, s.Rows, ldd, s.LD)
	}
}

func genericRequantize(dst *byte, sums *int32, factors, bias *float32, l *levels, n, rows, ldd, lds int) {
	f, b := view(factors, n), view(bias, n)
	for r := range rows {
		d := view(advance(dst, r*ldd), n)
		for i, s := range view(advance(sums, r*lds), n) {
			scaled := float32(s) * f[i]
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
	groups := s.Cols / 16
	if groups > 0 {
		scale(k.set, &dst[0], &s.Sums[0], &s.Factors[0], &s.Bias[0], groups, s.Rows, ldd, s.LD)
	}
	if at := 16 * groups; at < s.Cols {
		genericScale(&dst[at], &s.Sums[at], &s.Factors[at], &s.Bias[at], s.Cols-at, s.Rows, ldd, s.LD)
	}
}

func genericScale(dst *float32, sums *int32, factors, bias *float32, n, rows, ldd, lds int) {
	f, b := view(factors, n), view(bias, n)
	for r := range rows {
		d := view(advance(dst, r*ldd), n)
		for i, s := range view(advance(sums, r*lds), n) {
			scaled := float32(s) * f[i]
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
