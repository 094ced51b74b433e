//go:build ignore

package main

import "fmt"

// Bodies are written once, in the instructions of AVX2, which asm.Body says in NEON's. This file has the rest: tails, which are one
// number at most, and what is done better another way.

// Vector registers that bodies for NEON do not use.
const (
	neonMemory  = 30
	neonScratch = 31
)

func (c *ctx) neon() bool { return c.Retarget != nil }

// neonMove moves vector u behind a pointer, or its first number alone in the tail.
func (c *ctx) neonMove(x, p string, u int, tail, load bool) {
	op := "FMOVQ"
	if tail {
		op = "FMOVD"
	}
	at, register := fmt.Sprintf("%d(%s)", u*c.isa.Size(), c.General(p)), fmt.Sprintf("F%d", c.Retarget.Number(x))
	if load {
		c.Func.I("%s %s, %s", op, at, register)
	} else {
		c.Func.I("%s %s, %s", op, register, at)
	}
}

// neonSeries is series without moves: a product is added to a coefficient, in p and another register by turns.
func (c *ctx) neonSeries(x, p string, coefs []float64) {
	r := c.Retarget
	at, other := r.Number(p), neonScratch
	if len(coefs)%2 == 0 {
		at, other = other, at
	}
	r.Fetch(c.k(coefs[len(coefs)-1]), at)
	for i := len(coefs) - 2; i >= 0; i-- {
		r.Fetch(c.k(coefs[i]), other)
		c.V("fmla.2d", other, at, r.Number(x))
		at, other = other, at
	}
}

// neonWhole converts whole numbers to int64 in place.
func (c *ctx) neonWhole(n string) { c.V("fcvtns.2d", c.Retarget.Number(n), c.Retarget.Number(n)) }

// neonPower is power of an int64.
func (c *ctx) neonPower(n, x string) {
	r := c.Retarget
	r.Fetch(c.bits(1023), r.Number(x))
	c.V("add.2d", r.Number(x), r.Number(x), r.Number(n))
	c.VShift("shl.2d", r.Number(x), r.Number(x), 52)
}

// neonHalve splits an int64 into half of it, in t, and the rest.
func (c *ctx) neonHalve(n, t string) {
	r := c.Retarget
	c.VShift("sshr.2d", r.Number(t), r.Number(n), 1)
	c.V("sub.2d", r.Number(n), r.Number(n), r.Number(t))
}

// neonSplit takes the exponent out of x, and leaves it in p, with 1023 more, as an integer.
func (c *ctx) neonSplit(x, n, p, t string) {
	r := c.Retarget
	r.Fetch(c.bits(1023<<52-halfRoot), r.Number(n))
	c.V("add.2d", r.Number(n), r.Number(n), r.Number(x))
	c.VShift("sshr.2d", r.Number(p), r.Number(n), 52)
	c.VShift("shl.2d", r.Number(t), r.Number(p), 52)
	c.V("sub.2d", r.Number(x), r.Number(x), r.Number(t))
	r.Fetch(c.bits(1023<<52), r.Number(n))
	c.V("add.2d", r.Number(x), r.Number(x), r.Number(n))
}
