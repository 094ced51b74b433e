//go:build ignore

package main

import "github.com/carve-dev/carve/internal/kernel/asm"

// gates writes the element-wise parts of recurrent cells, on n elements.
func gates(f *asm.File, isa asm.ISA, suffix string) {
	kernel(f, isa, "lstm"+suffix, "lstm"+suffix+" writes cell = sigmoid(forget)*prev + sigmoid(in)*tanh(candidate) and hidden = sigmoid(out)*tanh(cell).",
		args("in", "out", "forget", "candidate", "prev", "cell", "hidden", "n"), func(c *ctx) {
			regs := map[string]string{"in": "AX", "out": "BX", "forget": "SI", "candidate": "DI", "prev": "R8", "cell": "R9", "hidden": "R10"}
			ptrs := loadAll(c, regs)
			c.row(ptrs, func(tail bool) {
				c.load("(SI)", c.r(0), tail)
				c.gate(c.r(0), c.r(1), c.r(2))
				c.load("(R8)", c.r(5), tail)
				c.I("VMULPS %s, %s, %s", c.r(0), c.r(5), c.r(5))
				c.load("(AX)", c.r(6), tail)
				c.gate(c.r(6), c.r(1), c.r(2))
				c.load("(DI)", c.r(0), tail)
				c.tanh(c.r(0), c.r(1), c.r(2), c.r(3))
				c.I("VFMADD231PS %s, %s, %s", c.r(0), c.r(6), c.r(5))
				c.store(c.r(5), "(R9)", tail)
				c.tanh(c.r(5), c.r(1), c.r(2), c.r(3))
				c.load("(BX)", c.r(6), tail)
				c.gate(c.r(6), c.r(1), c.r(2))
				c.I("VMULPS %s, %s, %s", c.r(5), c.r(6), c.r(6))
				c.store(c.r(6), "(R10)", tail)
			})
			c.Ret()
		})
	kernel(f, isa, "gruReset"+suffix, "gruReset"+suffix+" writes dst = sigmoid(r)*x + y; y may be nil, which counts as 0.",
		args("dst", "r", "x", "y", "n"), func(c *ctx) {
			ptrs := loadAll(c, map[string]string{"dst": "DI", "r": "AX", "x": "BX", "y": "SI"})
			body := func(add bool) func(bool) {
				return func(tail bool) {
					c.load("(AX)", c.r(0), tail)
					c.gate(c.r(0), c.r(1), c.r(2))
					c.load("(BX)", c.r(3), tail)
					if add {
						c.load("(SI)", c.r(4), tail)
						c.I("VFMADD213PS %s, %s, %s", c.r(4), c.r(3), c.r(0))
					} else {
						c.I("VMULPS %s, %s, %s", c.r(3), c.r(0), c.r(0))
					}
					c.store(c.r(0), "(DI)", tail)
				}
			}
			c.I("TESTQ SI, SI")
			c.I("JZ plain")
			c.row(ptrs, body(true))
			c.I("JMP end")
			c.Label("plain")
			c.row([]string{"AX", "BX", "DI"}, body(false))
			c.Label("end")
			c.Ret()
		})
	kernel(f, isa, "gru"+suffix, "gru"+suffix+" writes dst = (1-u)*tanh(h) + u*prev, u = sigmoid(z), as t + u*(prev-t).",
		args("dst", "z", "h", "prev", "n"), func(c *ctx) {
			ptrs := loadAll(c, map[string]string{"dst": "DI", "z": "AX", "h": "BX", "prev": "SI"})
			c.row(ptrs, func(tail bool) {
				c.load("(AX)", c.r(5), tail)
				c.gate(c.r(5), c.r(1), c.r(2))
				c.load("(BX)", c.r(0), tail)
				c.tanh(c.r(0), c.r(1), c.r(2), c.r(3))
				c.load("(SI)", c.r(4), tail)
				c.I("VSUBPS %s, %s, %s", c.r(0), c.r(4), c.r(4))
				c.I("VFMADD231PS %s, %s, %s", c.r(4), c.r(5), c.r(0))
				c.store(c.r(0), "(DI)", tail)
			})
			c.Ret()
		})
	f.Serve("lstm", isa, "lstm"+suffix+"(i, o, f, g, prev, cell, hidden, n)")
	f.Serve("gruReset", isa, "gruReset"+suffix+"(dst, r, x, y, n)")
	f.Serve("gru", isa, "gru"+suffix+"(dst, z, h, prev, n)")
}

// loadAll loads pointer arguments to registers and returns the registers, sorted.
func loadAll(c *ctx, regs map[string]string) []string {
	var ptrs []string
	for _, name := range sorted(regs) {
		c.Load(name, regs[name])
		ptrs = append(ptrs, regs[name])
	}
	c.tailMask()
	c.preload("")
	return ptrs
}
