//go:build ignore

// Command gen writes the vector kernels of package double.
package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	var units []asm.Unit
	for _, set := range []struct {
		name string
		isa  asm.ISA
	}{{"512", asm.AVX512()}, {"2", asm.AVX2()}, {"128", asm.NEON()}} {
		units = append(units, asm.Unit{Base: "kernels" + set.name, Arch: set.isa.Arch, Generate: func(f *asm.File) {
			binaries(f, set.isa, set.name)
			unaries(f, set.isa, set.name)
			reduces(f, set.isa, set.name)
		}})
	}
	asm.Main("double", asm.Table{Entries: entries}, units...)
}

// entries are what Kernels call.
var entries = []asm.Entry{
	{Name: "binary", Doc: "writes a op b for n elements.", Params: "op BinaryOp, form Form, dst, a, b *float64, n int",
		Portable: "genericBinary(op, form, dst, a, b, n)"},
	{Name: "unary", Doc: "writes op of n elements.", Params: "op Op, dst, src *float64, n int", Portable: "genericUnary(op, dst, src, n)"},
	{Name: "mulAdd", Doc: "adds n elements, times a number each, to rows > 0 rows that lie apart bytes apart.", Params: "dst, src, by *float64, n, rows, apart int", Portable: "genericMulAdd(dst, src, by, n, rows, apart)"},
	{Name: "reduce", Doc: "combines n elements.", Params: "op ReduceOp, src *float64, n int", Result: "float64", Portable: "return genericReduce(op, src, n)"},
}

// ctx is one kernel being written, for one instruction set, in instructions of AVX2 and AVX-512, which gen_neon.go says in those of NEON. Vector registers 0 to 7 are the body's, from 8 on are constants that
// have to be in one (reg), and where there are no mask registers the last one is the mask of the tail.
type ctx struct {
	asm.Body
	file *asm.File
	isa  asm.ISA
	regs map[uint64]string
}

func (c *ctx) lanes() int         { return c.isa.Lanes / 2 }
func (c *ctx) r(i int) string     { return c.isa.R(i) }
func (c *ctx) zero(x string)      { c.Clear(c.isa, x) }
func (c *ctx) masked() string     { return c.isa.Mask() }
func pointer(n string) asm.Arg    { return asm.Typed(n, "*float64") }
func lower(name string) string    { return strings.ToLower(name[:1]) + name[1:] }
func bitsOf(v float64) uint64     { return math.Float64bits(v) }
func (c *ctx) k(v float64) string { return c.bits(bitsOf(v)) }

// bits returns the operand of a constant in memory, which may stand only as an instruction's first source.
func (c *ctx) bits(b uint64) string {
	lo, hi := uint32(b), uint32(b>>32)
	return c.file.Data(fmt.Sprintf("k%016x", b), lo, hi, lo, hi, lo, hi, lo, hi)
}

// reg returns a register that holds a constant; all are asked for before the loop.
func (c *ctx) reg(v float64) string {
	x, ok := c.regs[bitsOf(v)]
	if !ok {
		x = c.r(8 + len(c.regs))
		c.regs[bitsOf(v)] = x
		c.I("VBROADCASTSD %s, %s", c.k(v), x)
	}
	return x
}

// op writes an instruction; a constant in memory is broadcast where the instruction set asks for it.
func (c *ctx) op(name string, operands ...string) {
	list := strings.Join(operands, ", ")
	if strings.Contains(list, "<>") {
		name += c.isa.Broadcast
	}
	c.I("%s %s", name, list)
}

// tailMask makes the mask of n modulo the width; n is an argument. It uses CX and DX.
func (c *ctx) tailMask() {
	if c.neon() { // a tail is one number
		return
	}
	c.Load("n", "CX")
	c.I("ANDQ $%d, CX", c.lanes()-1)
	if c.isa.Masks {
		c.I("ADDQ CX, CX") // lanes of 32 bits
		c.I("MOVL $1, DX")
		c.I("SHLL CX, DX")
		c.I("DECL DX")
		c.I("KMOVW DX, %s", c.masked())
		return
	}
	var words []uint32
	for range c.isa.Lanes {
		words = append(words, 0xffffffff)
	}
	c.I("SHLQ $3, CX")
	c.I("NEGQ CX")
	c.I("LEAQ %s, DX", c.file.Data("tail", append(words, make([]uint32, c.isa.Lanes)...)...))
	c.I("VMOVUPS %d(DX)(CX*1), %s", c.isa.Size(), c.masked())
}

// load and store move vector u behind a pointer, masked in the tail.
func (c *ctx) load(p string, u int, x string, tail bool) {
	if c.neon() {
		c.neonMove(x, p, u, tail, true)
		return
	}
	c.LoadVector(c.isa, fmt.Sprintf("%d(%s)", u*c.isa.Size(), p), x, c.mask(tail))
}

func (c *ctx) store(x, p string, u int, tail bool) {
	if c.neon() {
		c.neonMove(x, p, u, tail, false)
		return
	}
	c.StoreVector(c.isa, x, fmt.Sprintf("%d(%s)", u*c.isa.Size(), p), c.mask(tail))
}

func (c *ctx) mask(tail bool) string {
	if !tail {
		return ""
	}
	return c.masked()
}

// each runs body for the vectors of n elements (an argument), unroll at a time and then one by one, advancing the pointers; the
// tail comes last.
func (c *ctx) each(ptrs []string, unroll int, body func(u int, tail bool)) {
	c.Load("n", "CX")
	for _, count := range []int{unroll, 1} {
		c.While("CX", count*c.lanes(), func() {
			for u := range count {
				body(u, false)
			}
			for _, p := range ptrs {
				c.I("ADDQ $%d, %s", count*c.isa.Size(), p)
			}
		})
		if unroll == 1 {
			break
		}
	}
	c.I("TESTQ CX, CX")
	c.I("JZ end")
	body(0, true)
	c.Label("end")
}

// binaryOps are the functions of two operands.
var binaryOps = []struct{ name, instruction string }{
	{"Add", "VADDPD"}, {"Sub", "VSUBPD"}, {"Mul", "VMULPD"}, {"Div", "VDIVPD"}, {"Max", "VMAXPD"}, {"Min", "VMINPD"}, {"PRelu", "VMULPD"},
}

// binaries writes dst = a op b in three forms: vectors, b a number, a a number.
func binaries(f *asm.File, isa asm.ISA, suffix string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// callBinary%s runs the kernel of op in a form.\n", suffix)
	fmt.Fprintf(&table, "func callBinary%s(op BinaryOp, form Form, dst, a, b *float64, n int) {\n\tswitch uint8(op)<<2 | uint8(form) {\n", suffix)
	for _, op := range binaryOps {
		for _, form := range []string{"VV", "VS", "SV"} {
			name := lower(op.name) + form + suffix
			c := newKernel(f, isa, name, name+" writes a "+op.name+" b for n elements.", pointer("dst"), pointer("a"), pointer("b"), asm.Int("n"))
			c.binary(op.name, op.instruction, form)
			fmt.Fprintf(&table, "\tcase uint8(%s)<<2 | uint8(%s):\n\t\t%s(dst, a, b, n)\n", op.name, form, name)
		}
	}
	f.Go(table.String() + "\t}\n}\n")
	f.Serve("binary", isa, fmt.Sprintf("callBinary%s(op, form, dst, a, b, n)", suffix))
}

func newKernel(f *asm.File, isa asm.ISA, name, doc string, args ...asm.Arg) *ctx {
	return &ctx{Body: isa.Body(f.Func(name, doc, args...), neonMemory, neonScratch), file: f, isa: isa, regs: map[uint64]string{}}
}

func (c *ctx) binary(op, instruction, form string) {
	c.Load("dst", "DI")
	c.Load("a", "SI")
	c.Load("b", "R8")
	c.tailMask()
	ptrs := []string{"DI"}
	operand := map[byte]func(p, held string, u int, x string, tail bool) string{
		'V': func(p, _ string, u int, x string, tail bool) string { c.load(p, u, x, tail); return x },
		'S': func(_, held string, _ int, _ string, _ bool) string { return held },
	}
	for i, p := range []string{"SI", "R8"} {
		if form[i] == 'S' {
			c.I("VBROADCASTSD (%s), %s", p, c.r(6+i))
		} else {
			ptrs = append(ptrs, p)
		}
	}
	var zero string
	if op == "PRelu" {
		zero = c.reg(0)
	}
	c.each(ptrs, 2, func(u int, tail bool) {
		a := operand[form[0]]("SI", c.r(6), u, c.r(2*u), tail)
		b := operand[form[1]]("R8", c.r(7), u, c.r(2*u+1), tail)
		d := c.r(4)
		c.I("%s %s, %s, %s", instruction, b, a, d)
		switch {
		case op == "PRelu" && c.isa.Masks:
			c.I("VCMPPD $5, %s, %s, K2", zero, a)
			c.I("VMOVUPD %s, K2, %s", a, d)
		case op == "PRelu":
			c.I("VCMPPD $5, %s, %s, %s", zero, a, c.r(5))
			c.where(c.r(5), a, d)
		case !c.neon() && (op == "Max" || op == "Min"):
			// The instruction returns b where either is NaN: right but for a NaN in a.
			if c.isa.Masks {
				c.I("VCMPPD $3, %s, %s, K2", a, a)
				c.I("VMOVUPD %s, K2, %s", a, d)
			} else {
				c.I("VCMPPD $3, %s, %s, %s", a, a, c.r(5))
				c.I("VBLENDVPD %s, %s, %s, %s", c.r(5), a, d, d)
			}
		}
		c.store(d, "DI", u, tail)
	})
	c.Ret()
}

// unaries writes the functions of one operand, and the multiply-add.
func unaries(f *asm.File, isa asm.ISA, suffix string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// callUnary%s runs the kernel of op.\n", suffix)
	fmt.Fprintf(&table, "func callUnary%s(op Op, dst, src *float64, n int) {\n\tswitch op {\n", suffix)
	for _, op := range unaryOps {
		name := lower(op.name) + suffix
		c := newKernel(f, isa, name, name+" writes "+op.name+" of n elements.", pointer("dst"), pointer("src"), asm.Int("n"))
		c.Load("dst", "DI")
		c.Load("src", "SI")
		c.tailMask()
		for _, v := range op.constants {
			c.reg(v)
		}
		c.each([]string{"SI", "DI"}, 1, func(u int, tail bool) {
			c.load("SI", u, c.r(0), tail)
			op.emit(c, c.r(0), c.r(1), c.r(2), c.r(3))
			c.store(c.r(0), "DI", u, tail)
		})
		c.Ret()
		fmt.Fprintf(&table, "\tcase %s:\n\t\t%s(dst, src, n)\n", op.name, name)
	}
	f.Go(table.String() + "\t}\n}\n")
	f.Serve("unary", isa, fmt.Sprintf("callUnary%s(op, dst, src, n)", suffix))

	c := newKernel(f, isa, "mulAdd"+suffix, "mulAdd"+suffix+" adds n elements, times the numbers at by, to rows that lie apart bytes apart; rows > 0.",
		pointer("dst"), pointer("src"), pointer("by"), asm.Int("n"), asm.Int("rows"), asm.Int("apart"))
	for _, x := range [][2]string{{"dst", "R11"}, {"by", "R8"}, {"rows", "R9"}, {"apart", "R10"}} {
		c.Load(x[0], x[1])
	}
	c.tailMask()
	c.Loop("R9", func() {
		c.I("MOVQ R11, DI")
		c.Load("src", "SI")
		c.I("VBROADCASTSD (R8), %s", c.r(4))
		c.each([]string{"SI", "DI"}, 2, func(u int, tail bool) {
			c.load("SI", u, c.r(2*u), tail)
			c.load("DI", u, c.r(2*u+1), tail)
			c.I("VFMADD231PD %s, %s, %s", c.r(2*u), c.r(4), c.r(2*u+1))
			c.store(c.r(2*u+1), "DI", u, tail)
		})
		c.I("ADDQ $8, R8")
		c.I("ADDQ R10, R11")
	})
	c.Ret()
	f.Serve("mulAdd", isa, fmt.Sprintf("mulAdd%s(dst, src, by, n, rows, apart)", suffix))
}

// reductions are the ways to make one number of many: how elements are combined, and with what a chain begins.
var reductions = []struct {
	name, instruction string
	start             float64
}{{"Sum", "VADDPD", 0}, {"SumSquares", "VADDPD", 0}, {"SumAbs", "VADDPD", 0}, {"Greatest", "VMAXPD", math.Inf(-1)}, {"Least", "VMINPD", math.Inf(1)}}

// reduces writes the reductions, in four interleaved chains of vectors.
func reduces(f *asm.File, isa asm.ISA, suffix string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// callReduce%s runs the kernel of op.\n", suffix)
	fmt.Fprintf(&table, "func callReduce%s(op ReduceOp, src *float64, n int) float64 {\n\tswitch op {\n", suffix)
	for _, op := range reductions {
		name := lower(op.name) + suffix
		c := newKernel(f, isa, name, name+" returns "+op.name+" of n elements.", pointer("src"), asm.Int("n"))
		c.Result("ret", "float64")
		c.reduction(op.name, op.instruction, op.start)
		fmt.Fprintf(&table, "\tcase %s:\n\t\treturn %s(src, n)\n", op.name, name)
	}
	f.Go(table.String() + "\t}\n\tpanic(\"double: no such reduction\")\n}\n")
	f.Serve("reduce", isa, fmt.Sprintf("return callReduce%s(op, src, n)", suffix))
}

func (c *ctx) reduction(name, instruction string, start float64) {
	c.Load("src", "SI")
	c.tailMask()
	orders, bad := instruction != "VADDPD", c.r(6)
	losing := orders && !c.neon() // NaN, which lanes of bad keep
	if losing {
		c.zero(bad)
	}
	for i := range 4 {
		c.I("VBROADCASTSD %s, %s", c.k(start), c.r(i))
	}
	c.each([]string{"SI"}, 4, func(u int, tail bool) {
		x, t := c.r(4), c.r(5)
		c.load("SI", u, x, tail)
		switch {
		case name == "SumSquares":
			c.I("VFMADD231PD %s, %s, %s", x, x, c.r(u))
			return
		case name == "SumAbs":
			c.op("VANDPD", c.bits(1<<63-1), x, x)
		case orders:
			if losing {
				c.keepNaN(x, bad, t)
			}
			if tail {
				c.I("VBROADCASTSD %s, %s", c.k(start), t)
				c.merge(x, t)
				x = t
			}
		}
		c.I("%s %s, %s, %s", instruction, x, c.r(u), c.r(u))
	})
	c.I("%s %s, %s, %s", instruction, c.r(1), c.r(0), c.r(0))
	c.I("%s %s, %s, %s", instruction, c.r(3), c.r(2), c.r(2))
	c.I("%s %s, %s, %s", instruction, c.r(2), c.r(0), c.r(0))
	c.fold(instruction, 0)
	if losing { // bad is 0, or has one
		c.fold("VADDPD", 6)
		c.I("VADDSD X6, X0, X0")
	}
	c.I("VMOVSD X0, %s", c.Addr("ret"))
	c.Ret()
}

// keepNaN copies the lanes of x that are NaN to bad.
func (c *ctx) keepNaN(x, bad, t string) {
	if c.isa.Masks {
		c.I("VCMPPD $3, %s, %s, K2", x, x)
		c.I("VMOVUPD %s, K2, %s", x, bad)
		return
	}
	c.I("VCMPPD $3, %s, %s, %s", x, x, t)
	c.I("VBLENDVPD %s, %s, %s, %s", t, x, bad, bad)
}

// merge copies the lanes of the tail from x to dst.
func (c *ctx) merge(x, dst string) {
	if c.neon() {
		c.Func.I("VMOV %s.D[0], %s.D[0]", x, dst)
		return
	}
	if c.isa.Masks {
		c.I("VMOVUPS %s, %s, %s", x, c.masked(), dst)
		return
	}
	c.I("VBLENDVPD %s, %s, %s, %s", c.masked(), x, dst, dst)
}

// fold combines the lanes of register number x into its lowest, with the help of register 5.
func (c *ctx) fold(instruction string, x int) {
	if c.neon() {
		c.Func.I("VEXT $8, V%[1]d.B16, V%[1]d.B16, V5.B16", x)
		c.I("%s V5, V%d, V%d", instruction, x, x)
		return
	}
	if c.isa.Lanes > 8 {
		c.I("VEXTRACTF64X4 $1, Z%d, Y5", x)
		c.I("%s Y5, Y%d, Y%d", instruction, x, x)
	}
	c.I("VEXTRACTF128 $1, Y%d, X5", x)
	c.I("%s X5, X%d, X%d", instruction, x, x)
	c.I("VPERMILPD $1, X%d, X5", x)
	c.I("%s X5, X%d, X%d", instruction, x, x)
}
