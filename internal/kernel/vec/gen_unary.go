//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// unaryOps are the element-wise functions by the name of their Op; argument and result are in register 0.
var unaryOps = []struct {
	name string
	emit func(c *ctx, r []string)
}{
	{"Exp", func(c *ctx, r []string) { c.expNormal(r[0], r[1:4]) }},
	{"Log", func(c *ctx, r []string) { c.log(r[0], r[1], r[2], r[3], r[4]) }},
	{"Tanh", func(c *ctx, r []string) { c.tanh(r[0], r[1], r[2], r[3]) }},
	{"Sigmoid", func(c *ctx, r []string) { c.sigmoid(r[0], r[1:5]) }},
	{"Erf", func(c *ctx, r []string) { c.erf(r[0], r[1], r[2], r[3]) }},
	{"Sqrt", func(c *ctx, r []string) { c.I("VSQRTPS %s, %s", r[0], r[0]) }},
	{"Rsqrt", func(c *ctx, r []string) {
		c.I("VSQRTPS %s, %s", r[0], r[0])
		c.I("VDIVPS %s, %s, %s", r[0], c.reg(1), r[0])
	}},
	{"Reciprocal", func(c *ctx, r []string) { c.I("VDIVPS %s, %s, %s", r[0], c.reg(1), r[0]) }},
	{"Abs", func(c *ctx, r []string) { c.op("VANDPS", c.bits(0x7fffffff), r[0], r[0]) }},
	{"Neg", func(c *ctx, r []string) { c.op("VXORPS", c.bits(0x80000000), r[0], r[0]) }},
	{"Square", func(c *ctx, r []string) { c.I("VMULPS %s, %s, %s", r[0], r[0], r[0]) }},
	{"Cube", func(c *ctx, r []string) {
		c.I("VMULPS %s, %s, %s", r[0], r[0], r[1])
		c.I("VMULPS %s, %s, %s", r[1], r[0], r[0])
	}},
	{"Relu", func(c *ctx, r []string) { c.op("VMAXPS", r[0], c.reg(0), r[0]) }},
	{"LeakyRelu", func(c *ctx, r []string) {
		c.I("VMULPS %s, %s, %s", c.param(0), r[0], r[1])
		c.selectSign(r[0], r[1], r[0])
	}},
	{"Clip", func(c *ctx, r []string) {
		c.op("VMAXPS", r[0], c.param(0), r[0])
		c.op("VMINPS", r[0], c.param(1), r[0])
	}},
	{"Elu", func(c *ctx, r []string) {
		c.I("VMULPS %s, %s, %s", c.param(1), r[0], r[1])
		c.expm1(r[1], r[2], r[3], r[4])
		c.I("VMULPS %s, %s, %s", c.param(0), r[1], r[1])
		c.I("VMULPS %s, %s, %s", c.param(2), r[0], r[2])
		c.selectIf(cmpGT, r[0], c.reg(0), r[2], r[1], r[0])
		c.I("VMOVUPS %s, %s", r[1], r[0])
	}},
	{"HardSigmoid", func(c *ctx, r []string) {
		c.I("VFMADD213PS %s, %s, %s", c.param(1), c.param(0), r[0])
		c.clamp(r[0], 0, 1)
	}},
	{"HardSwish", func(c *ctx, r []string) {
		c.set(c.k(1.0/6), r[1])
		c.op("VFMADD213PS", c.k(0.5), r[0], r[1])
		c.clamp(r[1], 0, 1)
		c.I("VMULPS %s, %s, %s", r[1], r[0], r[0])
	}},
	{"Silu", func(c *ctx, r []string) {
		if c.narrow() {
			c.I("VMOVAPS %s, %s", r[0], r[1])
			c.onePlusExp(r[1], r[2], r[3], r[4], r[5])
		} else {
			c.op("VXORPS", c.bits(0x80000000), r[0], r[1])
			c.expWithin(r[1], r[2:6])
			c.op("VADDPS", c.k(1), r[1], r[1])
		}
		c.I("VDIVPS %s, %s, %s", r[1], r[0], r[0])
	}},
	{"Swish", func(c *ctx, r []string) {
		c.I("VMULPS %s, %s, %s", c.param(0), r[0], r[1])
		if c.narrow() {
			c.onePlusExp(r[1], r[2], r[3], r[4], r[5])
		} else {
			c.op("VXORPS", c.bits(0x80000000), r[1], r[1])
			c.expWithin(r[1], r[2:6])
			c.op("VADDPS", c.k(1), r[1], r[1])
		}
		c.I("VDIVPS %s, %s, %s", r[1], r[0], r[0])
	}},
	{"GeluErf", func(c *ctx, r []string) { c.geluErf(r[0], r[1], r[2], r[3], r[4]) }},
	{"GeluTanh", func(c *ctx, r []string) { c.geluTanh(r[0], r[1], r[2:6]) }},
	{"Softplus", func(c *ctx, r []string) { c.softplus(r[0], r[1], r[2], r[3]) }},
	{"Mish", func(c *ctx, r []string) {
		// tanh(ln(1+e)) = e(e+2) / (e(e+2) + 2); from x = 20 on it is 1.
		c.op("VMINPS", r[0], c.reg(20), r[1])
		c.expWithin(r[1], r[2:6])
		c.op("VADDPS", c.k(2), r[1], r[2])
		c.I("VMULPS %s, %s, %s", r[1], r[2], r[1])
		c.op("VADDPS", c.k(2), r[1], r[2])
		c.I("VDIVPS %s, %s, %s", r[2], r[1], r[1])
		c.I("VMULPS %s, %s, %s", r[1], r[0], r[0])
	}},
	{"Floor", func(c *ctx, r []string) { c.round(9, r[0], r[0]) }},
	{"Ceil", func(c *ctx, r []string) { c.round(10, r[0], r[0]) }},
	{"Round", func(c *ctx, r []string) { c.round(8, r[0], r[0]) }},
	{"Sin", func(c *ctx, r []string) { c.sine(0, r[0], r[1:5]) }},
	{"Cos", func(c *ctx, r []string) { c.sine(1, r[0], r[1:5]) }},
	{"Tan", func(c *ctx, r []string) { c.tangent(r[0], r[1:5]) }},
	{"Asin", func(c *ctx, r []string) { c.asin(r[0], r[1:6], false) }},
	{"Acos", func(c *ctx, r []string) { c.asin(r[0], r[1:6], true) }},
	{"Atan", func(c *ctx, r []string) { c.atan(r[0], r[1:6]) }},
	{"Sinh", func(c *ctx, r []string) { c.sinh(r[0], r[1:6]) }},
	{"Cosh", func(c *ctx, r []string) {
		c.op("VANDPS", c.bits(0x7fffffff), r[0], r[0])
		c.halfExp(r[0], r[1], r[2])
		c.set(c.k(0.25), r[1])
		c.I("VDIVPS %s, %s, %s", r[0], r[1], r[1])
		c.I("VADDPS %s, %s, %s", r[1], r[0], r[0])
	}},
	{"Softsign", func(c *ctx, r []string) {
		c.op("VANDPS", c.bits(0x7fffffff), r[0], r[1])
		c.op("VADDPS", c.k(1), r[1], r[1])
		c.I("VDIVPS %s, %s, %s", r[1], r[0], r[0])
	}},
	{"Sign", func(c *ctx, r []string) {
		c.op("VANDPS", c.bits(0x7fffffff), r[0], r[1])
		c.op("VANDPS", c.bits(0x80000000), r[0], r[2])
		c.op("VORPS", c.k(1), r[2], r[2])
		c.selectIf(cmpGT, r[1], c.reg(0), r[2], r[0], r[1])
	}},
	{"Threshold", func(c *ctx, r []string) {
		c.I("VMOVUPS %s, %s", c.param(0), r[1])
		c.zero(r[2])
		c.I("VMOVUPS %s, %s", r[0], r[3])
		c.selectIf(cmpGT, r[1], r[3], r[2], r[0], r[4])
		c.selectIf(cmpEQ, r[3], r[1], r[2], r[0], r[4])
	}},
	{"Shrink", func(c *ctx, r []string) {
		c.I("VADDPS %s, %s, %s", c.param(1), r[0], r[1])
		c.I("VSUBPS %s, %s, %s", c.param(1), r[0], r[2])
		c.op("VXORPS", c.bits(0x80000000), r[0], r[3])
		c.zero(r[4])
		c.selectIf(cmpGT, r[0], c.param(0), r[2], r[4], r[0])
		c.selectIf(cmpGT, r[3], c.param(0), r[1], r[4], r[3])
		c.I("VMOVUPS %s, %s", r[4], r[0])
	}},
	{"FakeQuantize", func(c *ctx, r []string) {
		c.I("VDIVPS %s, %s, %s", c.param(0), r[0], r[1])
		c.round(8, r[1], r[1])
		c.op("VMAXPS", r[1], c.param(1), r[1])
		c.op("VMINPS", r[1], c.param(2), r[1])
		c.selectIf(cmpUnord, r[0], r[0], c.param(1), r[1], r[2])
		c.I("VMULPS %s, %s, %s", c.param(0), r[1], r[0])
	}},
}

// selectSign writes dst = x has its sign bit set ? yes : dst.
func (c *ctx) selectSign(x, yes, dst string) {
	if c.neon() {
		c.neonSelectSign(x, yes, dst)
		return
	}
	if c.isa.Masks {
		c.I("VPMOVD2M %s, K2", x)
		c.I("VMOVUPS %s, K2, %s", yes, dst)
		return
	}
	c.I("VBLENDVPS %s, %s, %s, %s", x, yes, dst, dst)
}

// long are functions of so many instructions that the processor holds few vectors of them at a time. With AVX2 they have operands and results fetched
// fetchedAhead bytes before they come to them: on an AMD Zen 3 those behind the second-level cache take 0.9 to 1.0 of their time so, and those in it as long.
// And they are interleaved, as many vectors as there are registers for: those in the second-level cache take 0.72 to 0.9 of their time so.
var long = map[string]bool{"Exp": true, "Log": true, "Tanh": true, "Sigmoid": true, "Erf": true, "Silu": true, "Swish": true, "GeluErf": true, "GeluTanh": true, "Mish": true, "Sin": true, "Cos": true, "Tan": true,
	"Sinh": true, "Cosh": true, "Asin": true, "Acos": true, "Atan": true}

const fetchedAhead = 1024

// interleaved returns how many registers a function takes with AVX2, and for how many vectors its instructions are interleaved.
func interleaved(isa asm.ISA, emit func(c *ctx, r []string)) (registers, together int) {
	file := asm.New("scratch", isa.Arch)
	c := &ctx{Body: isa.Body(file.Func("scratch", "scratch"), 0, 0), file: file, isa: isa, keys: map[string]*constant{}, held: new([]string)}
	emit(c, c.list(6))
	sticky := 0
	for _, k := range c.keys {
		if k.sticky || k.param >= 0 {
			sticky++
		}
	}
	for i, r := range c.list(6) {
		if strings.Contains(strings.Join(*c.held, "\n")+"\n", r) {
			registers = i + 1
		}
	}
	return registers, (isa.Registers - 1 - sticky) / registers
}

// list returns the first so many body registers.
func (c *ctx) list(n int) []string {
	var r []string
	for i := range n {
		r = append(r, c.r(i))
	}
	return r
}

// unaries writes the element-wise functions on rows of n elements and the function that selects one.
func unaries(f *asm.File, isa asm.ISA, suffix string) {
	var table strings.Builder
	fmt.Fprintf(&table, "// callUnary%s runs the kernel of op and reports whether there is one. Strides are in bytes.\n", suffix)
	fmt.Fprintf(&table, "func callUnary%s(op Op, dst, src *float32, n, rows, ldd, lds int, params *Params) bool {\n\tp := (*float32)(unsafe.Pointer(params))\n\tswitch op {\n", suffix)
	for _, op := range unaryOps {
		name := strings.ToLower(op.name[:1]) + op.name[1:] + suffix
		registers, together := bodyRegisters, 1
		if isa == asm.AVX2() && long[op.name] {
			registers, together = interleaved(isa, op.emit)
		}
		kernelOf(f, isa, max(bodyRegisters, registers*together), name, name+" applies "+op.name+" to rows of n elements; strides in bytes; rows > 0.",
			args("dst", "src", "n", "rows", "ldd", "lds", "p"), func(c *ctx) {
				c.Load("dst", "DI")
				c.Load("src", "SI")
				c.Load("p", "R8")
				c.tailMask()
				c.preload("R8")
				c.rows(map[string]string{"DI": "ldd", "SI": "lds"}, func() {
					c.I("MOVQ SI, AX")
					c.I("MOVQ DI, BX")
					one := func(u int, tail bool) {
						r := c.list(6)
						c.load(c.vector("AX", u), r[0], tail)
						op.emit(c, r)
						c.store(r[0], c.vector("BX", u), tail)
					}
					c.rowOf([]string{"AX", "BX"}, together, func() {
						for at := 0; at < together*isa.Size(); at += 64 {
							c.I("PREFETCHT0 %d(AX)", fetchedAhead+at)
							c.I("PREFETCHT0 %d(BX)", fetchedAhead+at)
						}
						c.interleave(together, registers, func(u int) { one(u, false) })
					}, func(tail bool) { one(0, tail) })
				})
				c.Ret()
			})
		fmt.Fprintf(&table, "\tcase %s:\n\t\t%s(dst, src, n, rows, ldd, lds, p)\n", op.name, name)
	}
	table.WriteString("\tdefault:\n\t\treturn false\n\t}\n\treturn true\n}\n")
	f.Go(table.String())
	f.Import("unsafe")
	f.Serve("unary", isa, fmt.Sprintf("callUnary%s(op, dst, src, n, rows, 4*ldd, 4*lds, p)", suffix))
}
