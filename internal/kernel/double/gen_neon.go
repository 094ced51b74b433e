//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Bodies are written once, in the instructions of AVX2, which asm.Retarget says in NEON's. This file has the rest: tails, which are one
// number at most, and what is done better another way.

// Vector registers that bodies for NEON do not use.
const (
	neonMemory  = 30
	neonScratch = 31
)

func (c *ctx) neon() bool { return c.isa.Arch == "arm64" }

func (c *ctx) retarget() *asm.Retarget { return asm.OnNEON(c.Func, neonMemory, neonScratch) }

// I emits an instruction of AVX2, or what does the same.
func (c *ctx) I(format string, args ...any) {
	if c.neon() {
		c.retarget().I(fmt.Sprintf(format, args...))
	} else {
		c.Func.I(format, args...)
	}
}

// general returns the register that stands for one of a body.
func (c *ctx) general(reg string) string {
	if c.neon() {
		return c.retarget().General(reg)
	}
	return reg
}

// Load and While are those of asm.Func for the registers of bodies.
func (c *ctx) Load(name, reg string) { c.Func.Load(name, c.general(reg)) }

func (c *ctx) While(count string, step int, body func()) { c.Func.While(c.general(count), step, body) }

// neonMove moves vector u behind a pointer, or its first number alone in the tail.
func (c *ctx) neonMove(x, p string, u int, tail, load bool) {
	op := "FMOVQ"
	if tail {
		op = "FMOVD"
	}
	at, register := fmt.Sprintf("%d(%s)", u*c.isa.Size(), c.general(p)), fmt.Sprintf("F%d", c.retarget().Number(x))
	if load {
		c.Func.I("%s %s, %s", op, at, register)
	} else {
		c.Func.I("%s %s, %s", op, register, at)
	}
}

// neonSeries is series without moves: a product is added to a coefficient, in p and another register by turns.
func (c *ctx) neonSeries(x, p string, coefs []float64) {
	r := c.retarget()
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
func (c *ctx) neonWhole(n string) { c.V("fcvtns.2d", c.retarget().Number(n), c.retarget().Number(n)) }

// neonPower is power of an int64.
func (c *ctx) neonPower(n, x string) {
	r := c.retarget()
	r.Fetch(c.bits(1023), r.Number(x))
	c.V("add.2d", r.Number(x), r.Number(x), r.Number(n))
	c.VShift("shl.2d", r.Number(x), r.Number(x), 52)
}

// neonHalve splits an int64 into half of it, in t, and the rest.
func (c *ctx) neonHalve(n, t string) {
	r := c.retarget()
	c.VShift("sshr.2d", r.Number(t), r.Number(n), 1)
	c.V("sub.2d", r.Number(n), r.Number(n), r.Number(t))
}
