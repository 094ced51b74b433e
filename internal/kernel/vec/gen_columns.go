//go:build ignore

package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Registers of softmaxColumns behind those of the exponentials: maxima of two vectors of columns, of which reciprocals of sums take the places, and a sum.
const columnsBehind = 3

// columnsAhead is how many bytes ahead lines of operands are fetched, those of the result while the operands are read.
const columnsAhead = 256

// softmaxColumns writes the softmax of columns that lie side by side, two vectors of them at a time: operands go to work with their maximum, from there
// to exponentials and their sum, and from there to the result. So whole cache lines are read and written once each, however many rows fall on the same
// sets of a cache. Results are those of Softmax's definition by whole rows of operations: sums go from the first row to the last.
func softmaxColumns(f *asm.File, isa asm.ISA, suffix string) {
	registers := bodyRegisters
	if isa == asm.AVX2() {
		registers = softmaxSets*softmaxSet + columnsBehind
	}
	name := "softmaxColumns" + suffix
	kernelOf(f, isa, registers, name, name+" writes the softmax of each of n columns of rows; work has two vectors for each row; strides in bytes; rows, n > 0.",
		args("dst", "src", "work", "n", "rows", "ldd", "lds"), func(c *ctx) {
			c.Load("dst", "DI")
			c.Load("src", "SI")
			c.Load("ldd", "R8")
			c.Load("lds", "R9")
			c.tailMask()
			c.preload("")
			c.Load("n", "CX")
			for _, count := range []int{2, 1} {
				c.While("CX", count*c.isa.Lanes, func() {
					c.columns(count, false)
					c.I("ADDQ $%d, DI", count*c.isa.Size())
					c.I("ADDQ $%d, SI", count*c.isa.Size())
				})
			}
			c.I("TESTQ CX, CX")
			c.I("JZ end")
			c.columns(1, true)
			c.Label("end")
			c.Ret()
		})
	f.Serve("softmaxColumns", isa, name+"(dst, src, work, n, rows, 4*ldd, 4*lds)")
}

// columns writes count vectors of columns.
func (c *ctx) columns(count int, tail bool) {
	first := bodyRegisters - columnsBehind
	if c.narrow() {
		first = softmaxSets * softmaxSet
	}
	top := func(u int) string { return c.isa.R(first + u) }
	size := count * c.isa.Size()
	rows := func(pointer, stride string, body func()) {
		c.Load("work", "R10")
		c.I("MOVQ %s, AX", pointer)
		c.Load("rows", "DX")
		c.Loop("DX", func() {
			body()
			c.I("ADDQ $%d, R10", size)
			c.I("ADDQ %s, AX", stride)
		})
	}
	for u := range count {
		c.set(c.bits(0xff800000), top(u))
	}
	if c.narrow() {
		c.I("MOVQ DI, BX")
	}
	rows("SI", "R9", func() {
		if c.narrow() { // each row is a place of its own, of which a line is read at a time
			c.I("PREFETCHT1 %d(AX)", columnsAhead)
			c.I("PREFETCHT1 (BX)")
			c.I("ADDQ R8, BX")
		}
		for u := range count {
			c.load(c.vector("AX", u), c.r(u), tail)
			c.I("VMAXPS %s, %s, %s", c.r(u), top(u), top(u))
			c.store(c.r(u), c.vector("R10", u), false)
		}
	})
	for u := range count {
		c.weights(u*c.isa.Size(), size, top(u), c.isa.R(first+2))
	}
	rows("DI", "R8", func() {
		for u := range count {
			c.load(c.vector("R10", u), c.r(u), false)
			c.I("VMULPS %s, %s, %s", top(u), c.r(u), c.r(u))
			c.store(c.r(u), c.vector("AX", u), tail)
		}
	})
}

// weights writes e^(x-top) for the vectors at off in work, step bytes apart, and the reciprocal of their sum to top.
func (c *ctx) weights(off, step int, top, sum string) {
	each := func(at int) {
		x, n, p, s, t := c.r(0), c.r(1), c.r(2), "", ""
		c.I("VMOVUPS %d(R10), %s", off+at, x)
		c.I("VSUBPS %s, %s, %s", top, x, x)
		if !c.narrow() {
			c.expNegative(x, n, p)
		} else {
			s, t = c.r(3), c.r(4)
			c.expBelow(x, n, p, s, t)
		}
		c.I("VMOVUPS %s, %d(R10)", x, off+at)
		c.I("VADDPS %s, %s, %s", x, sum, sum)
	}
	c.zero(sum)
	c.Load("work", "R10")
	c.Load("rows", "DX")
	if c.narrow() {
		c.While("DX", softmaxSets, func() {
			c.interleave(softmaxSets, softmaxSet, func(u int) { each(u * step) })
			c.I("ADDQ $%d, R10", softmaxSets*step)
		})
	}
	c.While("DX", 1, func() {
		each(0)
		c.I("ADDQ $%d, R10", step)
	})
	c.set(c.reg(1), c.r(0))
	c.I("VDIVPS %s, %s, %s", sum, c.r(0), top)
}
