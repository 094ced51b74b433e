//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// binaryOps are the functions of two operands; the instruction's first source is b. What PRelu's makes counts below 0.
var binaryOps = []struct{ name, instruction string }{
	{"Add", "VADDPS"}, {"Sub", "VSUBPS"}, {"Mul", "VMULPS"}, {"Div", "VDIVPS"}, {"Max", "VMAXPS"}, {"Min", "VMINPS"}, {"PRelu", "VMULPS"},
}

// binaries writes dst = a op b in three forms (vectors, b one scalar per row, a one scalar per row) and the multiply-add.
func binaries(f *asm.File, isa asm.ISA, suffix string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// callBinary%s runs the kernel of op in a form. Strides are in bytes.\n", suffix)
	fmt.Fprintf(&table, "func callBinary%s(op BinaryOp, form Form, dst, a, b *float32, n, rows, ldd, lda, ldb int) {\n\tswitch uint8(op)<<2 | uint8(form) {\n", suffix)
	for _, op := range binaryOps {
		for _, form := range []string{"VV", "VS", "SV"} {
			name := strings.ToLower(op.name) + form + suffix
			kernel(f, isa, name, name+" writes rows of n elements of a "+op.name+" b; strides in bytes; rows > 0.",
				args("dst", "a", "b", "n", "rows", "ldd", "lda", "ldb"), func(c *ctx) { binary(c, op.name, op.instruction, form) })
			fmt.Fprintf(&table, "\tcase uint8(%s)<<2 | uint8(%s):\n\t\t%s(dst, a, b, n, rows, ldd, lda, ldb)\n", op.name, form, name)
		}
	}
	table.WriteString("\t}\n}\n")
	f.Go(table.String())
	f.Serve("binary", isa, fmt.Sprintf("callBinary%s(op, form, dst, a, b, n, rows, 4*ldd, 4*lda, 4*ldb)", suffix))
	joins(f, isa, suffix)
	for _, perRow := range []bool{false, true} {
		mulAdd(f, isa, suffix, perRow)
	}
	f.Serve("mulAdd", isa, either("perRow", "mulAddRows"+suffix, "mulAddLanes"+suffix, "(dst, x, scale, shift, n, rows, 4*ldd, 4*ldx, lo, hi)"))
}

func binary(c *ctx, op, instruction, form string) {
	c.Load("dst", "DI")
	c.Load("a", "SI")
	c.Load("b", "R8")
	c.tailMask()
	c.preload("")
	c.rows(map[string]string{"DI": "ldd", "SI": "lda", "R8": "ldb"}, func() {
		c.I("MOVQ DI, BX")
		c.I("MOVQ SI, AX")
		c.I("MOVQ R8, R9")
		ptrs := []string{"BX"}
		if form[0] == 'S' {
			c.I("VBROADCASTSS (AX), %s", c.r(5))
		} else {
			ptrs = append(ptrs, "AX")
		}
		if form[1] == 'S' {
			c.I("VBROADCASTSS (R9), %s", c.r(6))
		} else {
			ptrs = append(ptrs, "R9")
		}
		c.rowUnrolled(ptrs, 2, func(u int, tail bool) {
			at := func(p string) string { return fmt.Sprintf("%d(%s)", u*c.isa.Size(), p) }
			a, b, d := c.r(2*u), c.r(2*u+1), c.r(4)
			if form[0] == 'S' {
				a = c.r(5)
			} else {
				c.load(at("AX"), a, tail)
			}
			if form[1] == 'S' {
				b = c.r(6)
			} else {
				c.load(at("R9"), b, tail)
			}
			c.I("%s %s, %s, %s", instruction, b, a, d)
			switch op {
			case "Max", "Min":
				// The instruction returns b where either is NaN: right but for a NaN in a.
				c.selectIf(cmpUnord, a, a, a, d, c.r(7))
			case "PRelu":
				c.selectIf(cmpNLT, a, c.reg(0), a, d, c.r(7))
			}
			c.storeLast(d, "BX", u, tail)
		})
	})
	c.Ret()
}

// joins writes a = a op b of rows a that lie where a list says, for functions that updates of tensors have.
func joins(f *asm.File, isa asm.ISA, suffix string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// callJoin%s runs the kernel of op, if there is one. The stride is in bytes.\n", suffix)
	fmt.Fprintf(&table, "func callJoin%s(op BinaryOp, dst, src *float32, at *int, n, rows, lds int) {\n\tswitch op {\n", suffix)
	for _, op := range binaryOps {
		if op.name == "Sub" || op.name == "Div" || op.name == "PRelu" {
			continue
		}
		name := "join" + op.name + suffix
		kernel(f, isa, name, name+" writes a "+op.name+" b for rows a of n elements that lie where at says, in elements from dst on, and rows b of src; the stride is in bytes; rows > 0.",
			args("dst", "src", "at:*int", "n", "rows", "lds"), func(c *ctx) { join(c, op.name, op.instruction) })
		fmt.Fprintf(&table, "\tcase %s:\n\t\t%s(dst, src, at, n, rows, lds)\n", op.name, name)
	}
	table.WriteString("\tdefault:\n\t\tpanic(\"vec: no such kernel\")\n\t}\n}\n")
	f.Go(table.String())
	f.Serve("joinRows", isa, fmt.Sprintf("callJoin%s(op, dst, src, at, n, rows, 4*n)", suffix))
}

func join(c *ctx, op, instruction string) {
	c.Load("dst", "DI")
	c.Load("src", "SI")
	c.Load("at", "R8")
	c.tailMask()
	c.preload("")
	c.rows(map[string]string{"SI": "lds", "R8": "$8"}, func() {
		c.I("MOVQ (R8), BX")
		c.I("ADDQ BX, BX")
		c.I("ADDQ BX, BX")
		c.I("ADDQ DI, BX")
		c.I("MOVQ SI, AX")
		c.rowUnrolled([]string{"BX", "AX"}, 2, func(u int, tail bool) {
			a, b, d := c.r(2*u), c.r(2*u+1), c.r(4)
			c.load(c.vector("BX", u), a, tail)
			c.load(c.vector("AX", u), b, tail)
			c.I("%s %s, %s, %s", instruction, b, a, d)
			if op == "Max" || op == "Min" { // the instruction returns b where either is NaN
				c.selectIf(cmpUnord, a, a, a, d, c.r(7))
			}
			c.storeLast(d, "BX", u, tail)
		})
	})
	c.Ret()
}

// mulAdd writes dst = clip(x*scale + shift), with one scale and shift per column or per row.
func mulAdd(f *asm.File, isa asm.ISA, suffix string, perRow bool) {
	name, what := "mulAddLanes"+suffix, "n scales and shifts, one per column"
	if perRow {
		name, what = "mulAddRows"+suffix, "one scale and shift per row"
	}
	kernel(f, isa, name, name+" writes rows of x*scale + shift, with "+what+", bounded by lo and hi; strides in bytes; rows > 0.",
		args("dst", "x", "scale", "shift", "n", "rows", "ldd", "ldx", "lo:float32", "hi:float32"), func(c *ctx) {
			c.Load("dst", "DI")
			c.Load("x", "SI")
			c.Load("scale", "R8")
			c.Load("shift", "R9")
			c.tailMask()
			c.preload("")
			lo, hi := c.r(6), c.r(7)
			c.I("VBROADCASTSS %s, %s", c.Addr("lo"), lo)
			c.I("VBROADCASTSS %s, %s", c.Addr("hi"), hi)
			strides := map[string]string{"DI": "ldd", "SI": "ldx"}
			if perRow {
				strides["R8"], strides["R9"] = "$4", "$4"
			}
			c.rows(strides, func() {
				c.I("MOVQ DI, BX")
				c.I("MOVQ SI, AX")
				ptrs := []string{"BX", "AX"}
				if perRow {
					c.I("VBROADCASTSS (R8), %s", c.r(4))
					c.I("VBROADCASTSS (R9), %s", c.r(5))
				} else {
					c.I("MOVQ R8, R10")
					c.I("MOVQ R9, R11")
					ptrs = append(ptrs, "R10", "R11")
				}
				c.rowUnrolled(ptrs, 2, func(u int, tail bool) {
					x, scale, shift := c.r(u), c.r(4), c.r(5)
					c.load(c.vector("AX", u), x, tail)
					if !perRow {
						c.load(c.vector("R10", u), scale, tail)
						c.load(c.vector("R11", u), shift, tail)
					}
					c.I("VFMADD213PS %s, %s, %s", shift, scale, x)
					c.I("VMAXPS %s, %s, %s", x, lo, x)
					c.I("VMINPS %s, %s, %s", x, hi, x)
					c.storeLast(x, "BX", u, tail)
				})
			})
			c.Ret()
		})
}

// either returns the Go statement that calls one of two functions with the same arguments.
func either(condition, yes, no, args string) string {
	return fmt.Sprintf("if %s {\n%s%s\n} else {\n%s%s\n}", condition, yes, args, no, args)
}
