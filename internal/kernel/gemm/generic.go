package gemm

import (
	"math/bits"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// element is a type of matrices.
type element interface{ float32 | float64 }

// sizeOf returns the bytes of an element.
func sizeOf[T element]() int {
	var x T
	return int(unsafe.Sizeof(x))
}

// load and store address an element by byte offset.
func load[T element](p *T, off int) T     { return *(*T)(unsafe.Add(unsafe.Pointer(p), off)) }
func store[T element](p *T, off int, v T) { *(*T)(unsafe.Add(unsafe.Pointer(p), off)) = v }

// genericTile is the portable version of the tile kernels: rows ≤ 4, one panel. It works in blocks of 4 columns, whose
// sums fit the registers of any machine.
func genericTile[T element](rows int, p *tileParams, a, b, bias, res, c *T) {
	size := sizeOf[T]()
	cols := 64 / size
	if p.flags&flagTailC != 0 {
		cols = bits.OnesCount32(p.mask) * 4 / size
	}
	for j := 0; j < cols; j += 4 {
		w := min(4, cols-j)
		var acc [4][4]T
		for r := range rows {
			for i := range w {
				switch {
				case p.flags&flagAccumulate != 0:
					acc[r][i] = load(c, r*p.ldc+size*(j+i))
				case bias != nil:
					acc[r][i] = load(bias, size*(j+i))
				}
			}
		}
		switch {
		case w == 4 && rows == 4:
			block4x4(p, a, advance(b, j), &acc)
		case w == 4:
			for r := range rows {
				block1x4(p, (*T)(unsafe.Add(unsafe.Pointer(a), r*p.lda)), advance(b, j), &acc[r])
			}
		default:
			for r := range rows {
				for i := range w {
					sum := acc[r][i]
					for k := range p.k {
						sum += load(a, r*p.lda+size*k) * load(b, k*p.bstep+size*(j+i))
					}
					acc[r][i] = sum
				}
			}
		}
		for r := range rows {
			for i := range w {
				v := acc[r][i]
				if res != nil {
					v += load(res, r*p.ldr+size*(j+i))
				}
				store(c, r*p.ldc+size*(j+i), clip(v, p))
			}
		}
	}
}

// clip applies the bounds of p, if it has any; NaN stays.
func clip[T element](v T, p *tileParams) T {
	if p.flags&flagClip != 0 {
		if v < T(p.lo) {
			return T(p.lo)
		}
		if v > T(p.hi) {
			return T(p.hi)
		}
	}
	return v
}

func block4x4[T element](p *tileParams, a, b *T, acc *[4][4]T) {
	lda, size := p.lda, sizeOf[T]()
	s00, s01, s02, s03 := acc[0][0], acc[0][1], acc[0][2], acc[0][3]
	s10, s11, s12, s13 := acc[1][0], acc[1][1], acc[1][2], acc[1][3]
	s20, s21, s22, s23 := acc[2][0], acc[2][1], acc[2][2], acc[2][3]
	s30, s31, s32, s33 := acc[3][0], acc[3][1], acc[3][2], acc[3][3]
	for k := range p.k {
		row := (*[4]T)(unsafe.Add(unsafe.Pointer(b), k*p.bstep))
		b0, b1, b2, b3 := row[0], row[1], row[2], row[3]
		x := load(a, size*k)
		s00 += x * b0
		s01 += x * b1
		s02 += x * b2
		s03 += x * b3
		x = load(a, lda+size*k)
		s10 += x * b0
		s11 += x * b1
		s12 += x * b2
		s13 += x * b3
		x = load(a, 2*lda+size*k)
		s20 += x * b0
		s21 += x * b1
		s22 += x * b2
		s23 += x * b3
		x = load(a, 3*lda+size*k)
		s30 += x * b0
		s31 += x * b1
		s32 += x * b2
		s33 += x * b3
	}
	acc[0] = [4]T{s00, s01, s02, s03}
	acc[1] = [4]T{s10, s11, s12, s13}
	acc[2] = [4]T{s20, s21, s22, s23}
	acc[3] = [4]T{s30, s31, s32, s33}
}

func block1x4[T element](p *tileParams, a, b *T, acc *[4]T) {
	size := sizeOf[T]()
	s0, s1, s2, s3 := acc[0], acc[1], acc[2], acc[3]
	for k := range p.k {
		row := (*[4]T)(unsafe.Add(unsafe.Pointer(b), k*p.bstep))
		x := load(a, size*k)
		s0 += x * row[0]
		s1 += x * row[1]
		s2 += x * row[2]
		s3 += x * row[3]
	}
	*acc = [4]T{s0, s1, s2, s3}
}

// genericDot is the portable version of the dot kernels: one row, cols*n columns, four interleaved sums.
func genericDot(cols int, p *tileParams, a, b, bias, res, c *float32, n int) {
	for j := range cols * n {
		var s0, s1, s2, s3 float32
		col := (*float32)(unsafe.Add(unsafe.Pointer(b), j*p.bpanel))
		k := 0
		for ; k+4 <= p.k; k += 4 {
			s0 += load(a, 4*k) * load(col, 4*k)
			s1 += load(a, 4*k+4) * load(col, 4*k+4)
			s2 += load(a, 4*k+8) * load(col, 4*k+8)
			s3 += load(a, 4*k+12) * load(col, 4*k+12)
		}
		for ; k < p.k; k++ {
			s0 += load(a, 4*k) * load(col, 4*k)
		}
		sum := (s0 + s1) + (s2 + s3)
		if bias != nil {
			sum += load(bias, 4*j)
		}
		if res != nil {
			sum += load(res, 4*j)
		}
		store(c, 4*j, clip(sum, p))
	}
}

// genericPairs is genericTile for words of two bfloat16.
func genericPairs(rows int, p *tileParams, a, b, bias, res, c *float32) {
	cols := Panel
	if p.flags&flagTailC != 0 {
		cols = bits.OnesCount32(p.mask)
	}
	word := func(x *float32, off int) uint32 { return *(*uint32)(unsafe.Add(unsafe.Pointer(x), off)) }
	for r := range rows {
		for j := range cols {
			var sum float32
			switch {
			case p.flags&flagAccumulate != 0:
				sum = load(c, r*p.ldc+4*j)
			case bias != nil:
				sum = load(bias, 4*j)
			}
			for k := range p.k {
				x, y := word(a, r*p.lda+4*k), word(b, k*p.bstep+4*j)
				sum += pairs.High(x) * pairs.High(y)
				sum += pairs.Low(x) * pairs.Low(y)
			}
			if res != nil {
				sum += load(res, r*p.ldr+4*j)
			}
			store(c, r*p.ldc+4*j, clip(sum, p))
		}
	}
}

// genericFloat16 is genericTile for words of two float16.
func genericFloat16(rows int, p *tileParams, a, b, bias, res, c *float32) {
	const part = 32 // words of k that are decoded at a time
	var x [4 * 2 * part]float32
	var y [2 * part * Panel]float32
	q := *p
	q.bstep, q.lda = 4*Panel, 4*2*part
	for k := 0; k < p.k || k == 0; k += part {
		q.decoded(p, k, part)
		q.k *= 2
		for r := range rows {
			reorder.FromHalf(isa.Target{}, x[2*part*r:][:q.k], halvesAt(a, r*p.lda+4*k, q.k), reorder.Float16)
		}
		reorder.FromHalf(isa.Target{}, y[:q.k*Panel], halvesAt(b, k*p.bstep, q.k*Panel), reorder.Float16)
		genericTile(rows, &q, &x[0], &y[0], bias, res, c)
		res = nil // which may be C itself, and is added at first
	}
}

// genericHalf is genericTile for panels of float16.
func genericHalf(rows int, p *tileParams, a, b, bias, res, c *float32) {
	const part = 64 // elements of k that are decoded at a time
	var floats [part * Panel]float32
	q := *p
	q.bstep = 4 * Panel
	for k := 0; k < p.k || k == 0; k += part {
		q.decoded(p, k, part)
		reorder.FromHalf(isa.Target{}, floats[:q.k*Panel], halvesAt(b, k*p.bstep, q.k*Panel), reorder.Float16)
		genericTile(rows, &q, advance(a, k), &floats[0], bias, res, c)
		res = nil // which may be C itself, and is added at first
	}
}

// halvesAt returns n halves of float16, off bytes behind x.
func halvesAt(x *float32, off, n int) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Add(unsafe.Pointer(x), off)), n)
}

// decoded makes q the parameters of the part of p of at most n from k on.
func (q *tileParams) decoded(p *tileParams, k, n int) {
	q.k, q.flags = min(n, p.k-k), p.flags
	if k > 0 {
		q.flags |= flagAccumulate
	}
	if k+n < p.k {
		q.flags &^= flagClip
	}
}
