//go:build ignore

package main

import (
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Bodies are written once, in the instructions of AVX2, which asm.Body says in NEON's. This file has the rest: the tail of a row, which
// is moved lane by lane, and what is done better another way.

// Vector registers that bodies for NEON do not use.
const (
	neonMemory  = 8
	neonScratch = 9
	neonFirst   = 10 // of constants
)

func (c *ctx) neon() bool { return c.Retarget != nil }

// neonHorner is horner without moves: a product is added to a coefficient, in p and another register by turns.
func (c *ctx) neonHorner(x, p string, coefs []float64) {
	r := c.Retarget
	at, other := r.Number(p), neonScratch
	if len(coefs)%2 == 0 {
		at, other = other, at
	}
	set := func(v float64, to int) { c.I("VMOVUPS %s, V%d", c.k(v), to) }
	set(coefs[len(coefs)-1], at)
	for i := len(coefs) - 2; i >= 0; i-- {
		set(coefs[i], other)
		c.V("fmla.4s", other, at, r.Number(x))
		at, other = other, at
	}
}

// neonFold is fold.
func (c *ctx) neonFold(op string, x, t int) {
	c.Func.I("VEXT $8, V%d.B16, V%d.B16, V%d.B16", x, x, t)
	c.I("%s V%d, V%d, V%d", op, t, x, x)
	c.Func.I("VREV64 V%d.S4, V%d.S4", x, t)
	c.I("%s V%d, V%d, V%d", op, t, x, x)
}

// neonTailMask makes the mask of n modulo the width.
func (c *ctx) neonTailMask() {
	const ones = 0xffffffff
	c.Load("n", "CX")
	c.Func.I("AND $3, %s", c.General("CX"))
	c.I("LEAQ %s, DX", c.file.Data("tail", ones, ones, ones, ones, 0, 0, 0, 0))
	c.Func.I("SUB %s<<2, %s", c.General("CX"), c.General("DX"))
	c.I("VMOVUPS 16(DX), %s", c.isa.Mask())
}

// neonTail moves the one to three lanes of a tail, of which register CX has the number, as bodies count.
func (c *ctx) neonTail(addr, x string, load bool) {
	fn, end := c.Func, c.NewLabel("tail")
	v, at := c.Retarget.Number(x), c.Retarget.Memory(addr)
	if load {
		fn.I("FMOVS %s, F%d", at, v) // and zeros
	} else {
		fn.I("FMOVS F%d, %s", v, at)
	}
	off, base, _ := strings.Cut(strings.TrimSuffix(at, ")"), "(")
	if off == "" {
		off = "0"
	}
	for lane := 1; lane < 3; lane++ {
		fn.I("CMP $%d, %s", lane, c.General("CX"))
		fn.I("BLE %s", end)
		fn.I("ADD $(%s+%d), %s, %s", off, 4*lane, base, asm.Address)
		if load {
			fn.I("VLD1 (%s), V%d.S[%d]", asm.Address, v, lane)
		} else {
			fn.I("VST1 V%d.S[%d], (%s)", v, lane, asm.Address)
		}
	}
	fn.Label(end)
}

// neonSelectSign writes dst = x has its sign bit set ? yes : dst.
func (c *ctx) neonSelectSign(x, yes, dst string) {
	c.VShift("sshr.4s", neonScratch, c.Retarget.Number(x), 31)
	c.I("VBLENDVPS V%d, %s, %s, %s", neonScratch, yes, dst, dst)
}
