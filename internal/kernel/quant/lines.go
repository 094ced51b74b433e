package quant

import "math"

// LineShape is the shape of a depthwise convolution over two axes.
type LineShape struct {
	Channels     int // at least Panel
	Height       int // of a filter
	Width        int
	Stride       int // along a row, as is Dilation
	Dilation     int
	SignedPixels bool // pixels are int8, else uint8
}

// LineFilters are the weights of a depthwise convolution whose sums are rounded as they are made, and all that belongs to its channels, for
// kernels that multiply words in pairs. They read lines: of a block of 16 channels, two pixels that neighbouring taps of a window's row see stand side by
// side as words, [position][channels 0-3, 8-11, then 4-7, 12-15][2]. It is immutable.
type LineFilters struct {
	LineShape
	unit    int // pixels from position to position: at those between no two taps begin
	pairs   int // of taps, of a row
	limits  limits
	records []int32 // [block][what sums begin with, factors, addends, weights [row][pair]], of 16 channels in the order of positions
}

// lineParams is what a kernel reads beside its pointers. The generator knows the offsets of the fields.
type lineParams struct {
	offsets   *int
	pairs     int
	step, ldd int // distances of windows and of results, in bytes
	record    int // bytes of a block's
	block     int // distance of blocks of lines, in bytes
	rounding  *limits
}

// WeighsLines reports whether there are kernels that take LineFilters: PairLine and WeighLines.
func (k Kernels) WeighsLines() bool { return k.by == paired }

// NewLineFilters packs weights w[(channel·Height+row)·Width+column]; sums begin with start, and factors and addends are those of the rounding.
func NewLineFilters(s LineShape, w []int16, start []int32, r *Rounding) *LineFilters {
	f := &LineFilters{LineShape: s, unit: divisor(s.Stride, 2*s.Dilation), pairs: (s.Width + 1) / 2, limits: r.limits}
	for at := 0; at < s.Channels; at += Panel { // the last block overlaps the one before, and has the same there
		first, b := min(at, s.Channels-Panel), make([]int32, f.record())
		for i := range Panel {
			ch := first + lineChannel(i)
			b[i], b[Panel+i], b[2*Panel+i] = start[ch], int32(math.Float32bits(r.factors[ch])), int32(math.Float32bits(r.bias[ch]))
			for y := range s.Height {
				for x := range s.Width {
					b[Panel*(3+y*f.pairs+x/2)+i] |= int32(uint32(uint16(w[(ch*s.Height+y)*s.Width+x])) << (x % 2 * 16))
				}
			}
		}
		f.records = append(f.records, b...)
	}
	return f
}

// record returns how many words of 32 bits a block's record has.
func (f *LineFilters) record() int { return Panel * (3 + f.Height*f.pairs) }

// lineChannel returns the channel of a block that stands at a place of a position.
func lineChannel(i int) int { return i/8*4 + i%8/4*8 + i%4 }

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Blocks returns the number of blocks of channels.
func (f *LineFilters) Blocks() int { return Panels(f.Channels) }

// Positions returns how many positions of a line n windows see.
func (f *LineFilters) Positions(n int) int {
	return ((n-1)*f.Stride+2*(f.pairs-1)*f.Dilation)/f.unit + 1
}

// Pixels returns how many pixels of a padded row stand in as many positions. The last may have no weight.
func (f *LineFilters) Pixels(positions int) int { return (positions-1)*f.unit + f.Dilation + 1 }

// LineWords is how many words a position of a block takes.
const LineWords = 2 * Panel

// runs calls body for blocks side by side, from a channel on.
func (f *LineFilters) runs(body func(block, first, n int)) {
	whole := f.Channels / Panel
	body(0, 0, whole)
	if f.Channels%Panel != 0 {
		body(whole, f.Channels-Panel, 1)
	}
}

// PairLine writes n positions of all blocks of a padded row of pixels, blocks ldd words apart.
func (k Kernels) PairLine(f *LineFilters, dst []int16, ldd int, row []byte, n int) {
	if n <= 0 {
		return
	}
	dst, row = dst[:(f.Blocks()-1)*ldd+n*LineWords], row[:f.Pixels(n)*f.Channels]
	step, other, most := f.unit*f.Channels, f.Dilation*f.Channels, callElements/Panel
	f.runs(func(block, first, blocks int) {
		for at := 0; at < n; at += most {
			some := min(n-at, most)
			for b, each := 0, max(1, most/some); b < blocks; b += each {
				pairLine(k.set, f.SignedPixels, &dst[(block+b)*ldd+at*LineWords], &row[at*step+first+b*Panel], some, step, other, min(each, blocks-b), 2*ldd)
			}
		}
	})
}

func genericPairLine(signed bool, dst *int16, src *byte, n, step, other, blocks, ldd int) {
	for i := range n * blocks {
		b, i := i/n, i%n
		d, a := view(advance(dst, b*ldd/2+LineWords*i), LineWords), view(advance(src, b*Panel+step*i), other+Panel)
		for j := range Panel {
			d[2*j], d[2*j+1] = int16(number(a[lineChannel(j)], signed)), int16(number(a[other+lineChannel(j)], signed))
		}
	}
}

// WeighLines writes the integers of the sums of n windows, to rows of channels ldd apart in dst. lines says for each row of the filter
// where the first window's position is in near, in words, of the first block; others are block words apart. It panics where WeighsLines is false.
func (k Kernels) WeighLines(f *LineFilters, dst []byte, ldd int, near []int16, lines []int, block, n int) {
	if n <= 0 {
		return
	}
	if !k.WeighsLines() || ldd < 0 {
		panic("quant: no kernel weighs such lines")
	}
	var few [mostTaps]int
	offsets := few[:]
	if taps := f.Height * f.pairs; taps > mostTaps {
		offsets = make([]int, taps)
	}
	near = near[:len(near):len(near)]
	reach := (f.Blocks()-1)*block + LineWords*f.Positions(n)
	for y, line := range lines[:f.Height] {
		_ = near[line:][:reach]
		for x := range f.pairs {
			offsets[y*f.pairs+x] = line + LineWords*(2*x*f.Dilation/f.unit)
		}
	}
	_ = dst[(n-1)*ldd+f.Channels-1]
	step := LineWords * f.Stride / f.unit
	p := lineParams{offsets: &offsets[0], pairs: f.Height * f.pairs, step: 2 * step, ldd: ldd, record: 4 * f.record(), block: 2 * block, rounding: &f.limits}
	most := max(4, callQuads/(2*p.pairs)/4*4) // windows of a call
	f.runs(func(from, first, blocks int) {
		for at := 0; at < n; at += most {
			some := min(n-at, most)
			for b, each := 0, max(1, most/some); b < blocks; b += each {
				weighLines(k.set, &p, &near[(from+b)*block+at*step], &f.records[(from+b)*f.record()], &dst[at*ldd+first+b*Panel], some, min(each, blocks-b))
			}
		}
	})
}

// mostTaps is the most pairs of taps whose places need no memory of their own.
const mostTaps = 32
