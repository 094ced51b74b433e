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

// genericTile is the portable version of the tile kernels: rows ≤ 4, one panel. It works in blocks of 8 columns, row by row, and in the columns that are left.
func genericTile[T element](rows int, p *tileParams, a, b, bias, res, c *T) {
	size := sizeOf[T]()
	cols := 64 / size
	if p.flags&flagTailC != 0 {
		cols = bits.OnesCount32(p.mask) * 4 / size
	}
	at := func(base *T, off, n int) []T { return unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(base), off)), n) }
	for j := 0; j < cols; j += 8 {
		var acc [4][8]T
		w := min(8, cols-j)
		for r := range rows {
			switch {
			case p.flags&flagAccumulate != 0:
				copy(acc[r][:w], at(c, r*p.ldc+size*j, w))
			case bias != nil:
				copy(acc[r][:w], at(bias, size*j, w))
			}
		}
		switch {
		case p.k == 0: // there is no A, or B
		case w == 8:
			for r := range rows {
				block1x8(p, (*T)(unsafe.Add(unsafe.Pointer(a), r*p.lda)), advance(b, j), &acc[r])
			}
		default:
			for i := range w {
				block4x1(rows, p, a, advance(b, j+i), &acc, i)
			}
		}
		for r := range rows {
			sums := acc[r][:w]
			if res != nil {
				for i, v := range at(res, r*p.ldr+size*j, w) {
					sums[i] += v
				}
			}
			if p.flags&flagClip != 0 {
				for i, v := range sums {
					sums[i] = clip(v, p)
				}
			}
			copy(at(c, r*p.ldc+size*j, w), sums)
		}
	}
}

// packedColumn is column with a copy of the part of the panel.
func (p *Plan) packedColumn(m *matrices, u *unit, params *tileParams, a, b, bias, res, c unsafe.Pointer) {
	var panel [partK][Panel]float32
	cols := bits.OnesCount32(params.mask)
	for k := range params.k {
		copy(panel[k][:cols], unsafe.Slice((*float32)(unsafe.Add(b, k*params.bstep)), cols))
	}
	q := *params
	q.bstep = 4 * Panel
	p.column(m, u, &q, a, unsafe.Pointer(&panel), bias, res, c, nil)
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

// block1x8 adds the products of one row and eight columns. The compiler moves products in front of the sums of a basic block: with more
// than four at a time, or elements of B kept for other rows, sums would leave the registers of amd64, and each wait for memory.
func block1x8[T element](p *tileParams, a, b *T, acc *[8]T) {
	s0, s1, s2, s3, s4, s5, s6, s7 := acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7]
	off, step := 0, p.bstep // no pointer: behind the last row it would point beyond the matrix
	for _, x := range unsafe.Slice(a, p.k) {
		row := (*[8]T)(unsafe.Add(unsafe.Pointer(b), off))
		s0 += x * row[0]
		s1 += x * row[1]
		s2 += x * row[2]
		s3 += x * row[3]
		if step < 0 { // never: it ends the block
			break
		}
		s4 += x * row[4]
		s5 += x * row[5]
		s6 += x * row[6]
		s7 += x * row[7]
		off += step
	}
	acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7] = s0, s1, s2, s3, s4, s5, s6, s7
}

// block4x1 adds the products of up to four rows and one column to column i.
func block4x1[T element](rows int, p *tileParams, a, b *T, acc *[4][8]T, i int) {
	size := sizeOf[T]()
	second, third, fourth := p.lda*min(1, rows-1), p.lda*min(2, rows-1), p.lda*min(3, rows-1) // or the last row again
	s0, s1, s2, s3 := acc[0][i], acc[1][i], acc[2][i], acc[3][i]
	for k := range p.k {
		y, x := load(b, k*p.bstep), size*k
		s0 += load(a, x) * y
		s1 += load(a, second+x) * y
		s2 += load(a, third+x) * y
		s3 += load(a, fourth+x) * y
	}
	acc[0][i], acc[1][i], acc[2][i], acc[3][i] = s0, s1, s2, s3
}

// genericDot is the portable version of the dot kernels: one row, cols*n columns, of each four interleaved sums, two columns at a time.
func genericDot(cols int, p *tileParams, a, b, bias, res, c *float32, n int) {
	for j := 0; j < cols*n; j += 2 {
		first := (*float32)(unsafe.Add(unsafe.Pointer(b), j*p.bpanel))
		pair := [2]float32{}
		if j+1 < cols*n {
			pair[0], pair[1] = dot2(p.k, a, first, (*float32)(unsafe.Add(unsafe.Pointer(first), p.bpanel)))
		} else {
			pair[0], _ = dot2(p.k, a, first, first)
		}
		for i, sum := range pair[:min(2, cols*n-j)] {
			at := 4 * (j + i)
			if bias != nil {
				sum += load(bias, at)
			}
			if res != nil {
				sum += load(res, at)
			}
			store(c, at, clip(sum, p))
		}
	}
}

// dot2 returns the products of a row and two columns of k elements.
func dot2(k int, a, b, d *float32) (float32, float32) {
	var s0, s1, s2, s3, t0, t1, t2, t3 float32
	i := 0
	for ; i+4 <= k; i += 4 {
		if x := load(a, 4*i); i >= 0 { // always: few products are in front of their sums
			s0 += x * load(b, 4*i)
			t0 += x * load(d, 4*i)
			x = load(a, 4*i+4)
			s1 += x * load(b, 4*i+4)
			t1 += x * load(d, 4*i+4)
		}
		x := load(a, 4*i+8)
		s2 += x * load(b, 4*i+8)
		t2 += x * load(d, 4*i+8)
		x = load(a, 4*i+12)
		s3 += x * load(b, 4*i+12)
		t3 += x * load(d, 4*i+12)
	}
	for ; i < k; i++ {
		s0 += load(a, 4*i) * load(b, 4*i)
		t0 += load(a, 4*i) * load(d, 4*i)
	}
	return (s0 + s1) + (s2 + s3), (t0 + t1) + (t2 + t3)
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
