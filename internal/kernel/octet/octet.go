package octet

import (
	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Panel is the number of columns that lie side by side, and Group how many weights of each: blocks have whole groups, the last filled up.
const (
	Panel = 16
	Group = 4
)

// Weights are matrices of as many columns each, in panels. A vector of a panel has four bytes of each column: a group, or with 4 bits two,
// of which those at even places are the lower halves of the bytes.
type Weights struct {
	Bytes   []byte    // [panels][Blocks][groups][Panel][Group] weights
	Scales  []float32 // [panels][Blocks][Panel]
	Zeros   []byte    // [panels][Blocks][Panel] zero points
	Bits    int       // 8, or 4 for rounded rows of blocks of whole eights (Kernels.Narrow)
	Blocks  int       // of a column
	Block   int       // weights of a block
	Columns int       // of a matrix
}

// groups returns the groups of a block.
func (w *Weights) groups() int { return (w.Block + Group - 1) / Group }

// Width returns how many floats of a row kernels read.
func (w *Weights) Width() int { return w.Blocks * w.groups() * Group }

// Even reports whether a row of k floats is read as it lies.
func (w *Weights) Even(k int) bool { return k == w.Width() }

// panelBytes returns the bytes of a panel.
func (w *Weights) panelBytes() int { return w.Width() * Panel * w.Bits / 8 }

// panels returns the panels of a matrix.
func (w *Weights) panels() int { return (w.Columns + Panel - 1) / Panel }

// Spread writes a row as kernels read it, w.Width() floats, where it is not even: blocks with zeros behind them.
func (w *Weights) Spread(dst, src []float32) {
	size := w.groups() * Group
	for b := range w.Blocks {
		part := src[min(b*w.Block, len(src)):min((b+1)*w.Block, len(src))]
		to := dst[b*size:][:size]
		clear(to[copy(to, part):])
	}
}

// Kernels multiply with what a target has.
type Kernels struct {
	set  isa.Set
	dots bool // instructions multiply and add integers of 8 bits

	tiles bool // of AMX
}

// For returns the kernels of a target.
func For(t isa.Target) Kernels {
	dots := t.Set == isa.AVX512 && t.Features.Has(cpuid.AVX512VNNI)
	return Kernels{t.Set, dots || t.Set == isa.NEON && t.Features.Has(cpuid.ASIMDDP), dots && t.Int8Tiles()}
}

// part is where the panels of some columns are.
type part struct {
	bytes, zeros []byte
	scales       []float32
}

// from returns what a matrix has from a panel on, so many of them.
func (w *Weights) from(matrix, panel, n int) part {
	at, size := matrix*w.panels()+panel, w.Blocks*Panel
	return part{w.Bytes[at*w.panelBytes():][:n*w.panelBytes()], w.Zeros[at*size:][:n*size], w.Scales[at*size:][:n*size]}
}

// operand are rows that are multiplied: of floats, or rounded ones.
type operand struct {
	floats  []float32
	rounded []byte
	digits  int // of rounded ones
	lda     int // floats, or bytes, from one to the next
}

// from returns rows from r on.
func (x operand) from(r int) operand {
	if x.rounded != nil {
		x.rounded = x.rounded[r*x.lda:]
	} else {
		x.floats = x.floats[r*x.lda:]
	}
	return x
}

// Multiply writes the products of rows, lda floats apart, that are even or were spread, with columns [first, first+n) of a matrix, of
// which the first is that of a panel: row r at dst[r*ldd:]. Each sum is made in the same order whatever the rows beside it.
func (k Kernels) Multiply(dst []float32, ldd int, a []float32, lda, rows int, w *Weights, matrix, first, n int) {
	k.multiply(dst, ldd, operand{floats: a, lda: lda}, rows, w, matrix, first, n)
}

// multiply is Multiply for both kinds of rows. What a panel that is not whole has is copied.
func (k Kernels) multiply(dst []float32, ldd int, x operand, rows int, w *Weights, matrix, first, n int) {
	if n == 0 || w.Width() == 0 {
		return
	}
	whole, rest := n/Panel, n%Panel
	if whole > 0 {
		k.panels(dst, ldd, x, rows, w, w.from(matrix, first/Panel, whole), whole)
	}
	if rest == 0 {
		return
	}
	const most = 8
	var near [most * Panel]float32
	last := w.from(matrix, first/Panel+whole, 1)
	for r := 0; r < rows; r += most {
		take := min(most, rows-r)
		k.panels(near[:take*Panel], Panel, x.from(r), take, w, last, 1)
		for i := range take {
			copy(dst[(r+i)*ldd+whole*Panel:][:rest], near[i*Panel:])
		}
	}
}

// panels multiplies rows with whole panels, as many rows at a time as there is a kernel for: many by tiles, 8 of one digit, else 4, or 2, or 1; with AVX2 4 are of one
// digit by weights of 8 bits.
func (k Kernels) panels(dst []float32, ldd int, x operand, rows int, w *Weights, p part, panels int) {
	if k.byTiles(w, x.digits, rows) {
		k.tilePanels(dst, ldd, x, rows, w, p, panels)
		return
	}
	width := w.Width()
	for r := 0; r < rows; {
		left, take := rows-r, 1
		switch {
		case k.set == isa.AVX2:
			take = min(left, 2)
			if x.digits == OneDigit && w.Bits == 8 && left >= 4 {
				take = 4
			}
		case x.digits == OneDigit && left >= 8:
			take = 8
		case left >= 4:
			take = 4
		}
		d, y := dst[r*ldd:][:(take-1)*ldd+panels*Panel], x.from(r)
		if y.rounded != nil {
			k.roundedPanels(d, ldd, y, take, w, p, panels)
		} else {
			a := y.floats[:(take-1)*x.lda+width]
			callDot(k.set, take, &d[0], ldd, &a[0], x.lda, &p.bytes[0], &p.scales[0], &p.zeros[0], w.Blocks, w.groups(), panels)
		}
		r += take
	}
}

// Unpack writes the first depth weights of the columns of a panel of a matrix as floats: dst[depth][Panel], with zeros where there is no
// column, as products of floats read them. Weights have 8 bits.
func (k Kernels) Unpack(dst []float32, w *Weights, matrix, panel, depth int) {
	p, groups := w.from(matrix, panel, 1), w.groups()
	for b := range w.Blocks {
		at := b * w.Block
		n := min(w.Block, depth-at)
		if n <= 0 {
			return
		}
		bytes, scale, zero := p.bytes[b*groups*Group*Panel:], p.scales[b*Panel:][:Panel], p.zeros[b*Panel:][:Panel]
		to := dst[at*Panel:][:n*Panel]
		if whole := n / Group; whole > 0 {
			unpack(k.set, &to[0], &bytes[0], &scale[0], &zero[0], whole)
		}
		for i := n / Group * Group; i < n; i++ {
			for c := range Panel {
				to[i*Panel+c] = float32(int(bytes[(i/Group*Panel+c)*Group+i%Group])-int(zero[c])) * scale[c]
			}
		}
	}
}
