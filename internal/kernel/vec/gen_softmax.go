//go:build ignore

package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

// softmax writes e^(y-max) / sum, or y - max - ln(sum), for y = x*scale + mask.
func softmax(f *asm.File, isa asm.ISA, suffix string, logarithm bool) {
	name, what := "softmax"+suffix, "e^y / sum(e^y)"
	if logarithm {
		name, what = "logSoftmax"+suffix, "y - ln(sum(e^y))"
	}
	registers := softmaxSets*softmaxSet + 5
	switch {
	case isa == asm.AVX2():
		registers -= 2
	case !isa.Masks:
		registers = bodyRegisters
	}
	kernelOf(f, isa, registers, name, name+" writes "+what+" for each row of y = src*scale + mask, where mask may be nil; strides in bytes; rows, n > 0.",
		args("dst", "src", "mask", "n", "rows", "ldd", "lds", "ldm", "fetched:int", "scale:float32"), func(c *ctx) {
			c.Load("dst", "DI")
			c.Load("src", "SI")
			c.Load("mask", "R8")
			c.tailMask()
			c.preload("")
			c.nextRow()
			c.softmaxAll(logarithm)
			c.Ret()
		})
}

// Registers that softmax has for a vector, and for how many vectors it has some on amd64. Those behind hold the maximum and the sum of each row, and the scale;
// with AVX2 the others two constants and the mask.
const (
	softmaxSet  = 5
	softmaxSets = 2
)

// pairedSoftmaxRow is the most elements of rows that are computed two at a time with AVX-512: what waits for the maximum and the sum of one is computed beside
// that of the other. On an Intel Granite Rapids rows of 49 to 197 elements take 0.82 to 0.88 of their time so, those of 1000 would take 1.2.
const pairedSoftmaxRow = 512

// softmaxRow is one of the rows that are computed at once: pointers, and the registers of the maximum and of the sum.
type softmaxRow struct {
	src, dst, mask string
	top, sum       int
}

// softmaxAll writes all rows.
func (c *ctx) softmaxAll(logarithm bool) {
	first, end := softmaxSets*softmaxSet, c.NewLabel("end")
	if c.neon() {
		first = softmaxSet
	}
	row := softmaxRow{"AX", "BX", "R9", first, first + 1}
	if !c.neon() && !c.narrow() {
		c.softmaxPairs(row, end, logarithm)
	}
	c.rows(map[string]string{"DI": "ldd", "SI": "lds", "R8": "ldm"}, func() {
		c.softmaxRows([]softmaxRow{row}, logarithm)
		c.noMask(1)
	})
	c.Label(end)
}

// softmaxPairs writes two rows at a time, and goes on at a label where none is left.
func (c *ctx) softmaxPairs(row softmaxRow, end string, logarithm bool) {
	pairs, single := c.NewLabel("pairs"), c.NewLabel("single")
	c.I("CMPQ %s, $%d", c.Addr("n"), pairedSoftmaxRow)
	c.I("JGT %s", single)
	c.Label(pairs)
	c.I("CMPQ %s, $2", c.Addr("rows"))
	c.I("JLT %s", single)
	c.softmaxRows([]softmaxRow{row, {"DX", "R11", "R10", row.sum + 2, row.sum + 3}}, logarithm)
	c.noMask(2)
	for range 2 {
		c.I("ADDQ %s, DI", c.Addr("ldd"))
		c.I("ADDQ %s, SI", c.Addr("lds"))
		c.I("ADDQ %s, R8", c.Addr("ldm"))
	}
	c.I("SUBQ $2, %s", c.Addr("rows"))
	c.I("JMP %s", pairs)
	c.Label(single)
	c.I("CMPQ %s, $0", c.Addr("rows"))
	c.I("JEQ %s", end)
}

// noMask has the pointer to the mask still be nil when so many rows have been added to it, where it is.
func (c *ctx) noMask(rows int) {
	skip := c.NewLabel("nomask")
	c.I("TESTQ R8, R8")
	c.I("JNZ %s", skip)
	for range rows {
		c.I("SUBQ %s, R8", c.Addr("ldm"))
	}
	c.Label(skip)
}

// softmaxRows writes rows that lie one behind the other.
func (c *ctx) softmaxRows(rows []softmaxRow, logarithm bool) {
	scale := c.isa.R(rows[0].sum + 1)
	c.I("VBROADCASTSS %s, %s", c.Addr("scale"), scale)
	c.softmaxTops(rows, scale)
	for _, r := range rows {
		c.zero(c.isa.R(r.sum))
	}
	c.softmaxPass(softmaxPass{scale: scale, rows: rows, together: true, writes: true}, func(u int, r softmaxRow, tail bool) {
		x, n, p, s, t := c.r(0), c.r(1), c.r(2), c.r(3), c.r(4)
		c.I("VSUBPS %s, %s, %s", c.isa.R(r.top), x, x)
		if c.narrow() {
			c.expBelow(x, n, p, s, t)
		} else {
			c.expNegative(x, n, p)
		}
		if !logarithm && !c.narrow() {
			c.store(x, c.vector(r.dst, u), tail)
		}
		c.into("VADDPS", x, c.isa.R(r.sum), p, tail)
		if !logarithm && c.narrow() {
			c.storeLast(x, r.dst, u, tail)
		}
	})
	c.foldEach(rows, "VADDPS", func(r softmaxRow) int { return r.sum })
	if logarithm {
		for _, r := range rows {
			c.log(c.isa.R(r.sum), c.r(1), c.r(2), c.r(3), c.r(4))
		}
		c.softmaxPass(softmaxPass{scale: scale, rows: rows, unroll: 2, writes: true}, func(u int, r softmaxRow, tail bool) {
			c.I("VSUBPS %s, %s, %s", c.isa.R(r.top), c.r(0), c.r(0))
			c.I("VSUBPS %s, %s, %s", c.isa.R(r.sum), c.r(0), c.r(0))
			c.storeLast(c.r(0), r.dst, u, tail)
		})
		return
	}
	var ptrs []string
	for i, r := range rows {
		c.I("VMOVUPS %s, %s", c.reg(1), c.r(0))
		c.I("VDIVSS X%d, X%d, X%[1]d", r.sum, c.first)
		c.I("VBROADCASTSS X%d, %s", r.sum, c.isa.R(r.sum))
		c.rowPointer("DI", "ldd", r.dst, i)
		ptrs = append(ptrs, r.dst)
	}
	unroll := 1
	if c.narrow() {
		unroll = 4
	}
	c.rowUnrolled(ptrs, unroll, func(u int, tail bool) {
		for _, r := range rows {
			c.load(c.vector(r.dst, u), c.r(0), tail)
			c.I("VMULPS %s, %s, %s", c.isa.R(r.sum), c.r(0), c.r(0))
			c.storeLast(c.r(0), r.dst, u, tail)
		}
	})
}

// softmaxTops finds the maximum of each row, in several registers, of which none waits for the one before it.
func (c *ctx) softmaxTops(rows []softmaxRow, scale string) {
	spare := []string{c.r(3), c.r(4)}
	if len(rows) > 1 {
		spare = nil
	}
	tops := map[int][]string{}
	for _, r := range rows {
		tops[r.top] = append([]string{c.isa.R(r.top), c.isa.R(r.sum)}, spare...)
		for _, x := range tops[r.top] {
			c.set(c.bits(0xff800000), x)
		}
	}
	c.softmaxPass(softmaxPass{scale: scale, rows: rows, unroll: 2 + len(spare)}, func(u int, r softmaxRow, tail bool) {
		c.into("VMAXPS", c.r(0), tops[r.top][u], c.r(2), tail)
	})
	for _, r := range rows {
		list := tops[r.top]
		for n := len(list); n > 1; n /= 2 {
			for i := range n / 2 {
				c.I("VMAXPS %s, %s, %[2]s", list[i+n/2], list[i])
			}
		}
	}
	c.foldEach(rows, "VMAXPS", func(r softmaxRow) int { return r.top })
}

// foldEach folds a register of each row.
func (c *ctx) foldEach(rows []softmaxRow, op string, of func(r softmaxRow) int) {
	c.interleave(len(rows), softmaxSet, func(u int) { c.fold(op, of(rows[u]), c.first+4) })
}

// rowPointer has a pointer begin at row i.
func (c *ctx) rowPointer(from, stride, to string, i int) {
	c.I("MOVQ %s, %s", from, to)
	if i > 0 {
		c.I("ADDQ %s, %s", c.Addr(stride), to)
	}
}

// softmaxPass is one of the times that softmax goes over rows: unroll vectors of each at a time. Those of rows that are computed together are interleaved, with
// AVX2 two of a row; the next rows are fetched there.
type softmaxPass struct {
	scale            string
	rows             []softmaxRow
	unroll           int
	together, writes bool
}

// softmaxPass runs body over rows, once with and once without mask, and on amd64 once without scale. The next vector of y
// is in register 0; lanes beyond the row are 0. Register 1 is scratch.
func (c *ctx) softmaxPass(p softmaxPass, body func(u int, r softmaxRow, tail bool)) {
	plain, bare, end := c.NewLabel("plain"), "", c.NewLabel("passed")
	var ptrs, masks []string
	for i, r := range p.rows {
		c.rowPointer("SI", "lds", r.src, i)
		if ptrs = append(ptrs, r.src); p.writes {
			c.rowPointer("DI", "ldd", r.dst, i)
			ptrs = append(ptrs, r.dst)
		}
		masks = append(masks, r.mask)
	}
	c.I("TESTQ R8, R8")
	c.I("JZ %s", plain)
	for i, r := range p.rows {
		c.rowPointer("R8", "ldm", r.mask, i)
	}
	c.softmaxVectors(p, append(masks, ptrs...), func(u int, r softmaxRow, tail bool) {
		c.load(c.vector(r.src, u), c.r(0), tail)
		c.load(c.vector(r.mask, u), c.r(1), tail)
		c.I("VFMADD213PS %s, %s, %s", c.r(1), p.scale, c.r(0))
		body(u, r, tail)
	})
	c.I("JMP %s", end)
	c.Label(plain)
	if !c.neon() {
		bare = c.NewLabel("bare")
		c.I("CMPL %s, $0x3f800000", c.Addr("scale"))
		c.I("JEQ %s", bare)
	}
	c.softmaxVectors(p, ptrs, func(u int, r softmaxRow, tail bool) {
		c.load(c.vector(r.src, u), c.r(0), tail)
		c.I("VMULPS %s, %s, %s", p.scale, c.r(0), c.r(0))
		body(u, r, tail)
	})
	if !c.neon() {
		c.I("JMP %s", end)
		c.Label(bare)
		c.softmaxVectors(p, ptrs, func(u int, r softmaxRow, tail bool) {
			c.load(c.vector(r.src, u), c.r(0), tail)
			body(u, r, tail)
		})
	}
	c.Label(end)
}

// softmaxVectors runs body for the vectors of rows.
func (c *ctx) softmaxVectors(p softmaxPass, ptrs []string, body func(u int, r softmaxRow, tail bool)) {
	each := func(u int, tail bool) {
		for _, r := range p.rows {
			body(u, r, tail)
		}
	}
	fetch := func() {
		for _, r := range p.rows {
			if !c.neon() {
				c.fetchRow(r.src, r.dst, len(p.rows))
			}
		}
	}
	switch {
	case !p.together:
		c.rowUnrolled(ptrs, max(1, p.unroll), each)
	case c.narrow():
		c.rowOf(ptrs, softmaxSets, func() {
			fetch()
			c.interleave(softmaxSets, softmaxSet, func(u int) { body(u, p.rows[0], false) })
		}, func(tail bool) { each(0, tail) })
	default:
		c.row(ptrs, func(tail bool) {
			if tail {
				each(0, true)
				return
			}
			fetch()
			c.interleave(len(p.rows), softmaxSet, func(u int) { body(0, p.rows[u], false) })
		})
	}
}
