//go:build ignore

// Command gen writes the vector kernels of package vec.
package main

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	var units []asm.Unit
	for _, set := range []struct {
		name string
		isa  asm.ISA
	}{{"512", asm.AVX512()}, {"2", asm.AVX2()}, {"128", asm.NEON()}} {
		for _, u := range []struct {
			base string
			gen  func(*asm.File, asm.ISA, string)
		}{{"unary", unaries}, {"binary", binaries}, {"rows", rowKernels}, {"gates", gates}} {
			units = append(units, asm.Unit{Base: u.base + set.name, Arch: set.isa.Arch, Generate: func(f *asm.File) { u.gen(f, set.isa, set.name) }})
		}
		if set.isa != asm.NEON() {
			units = append(units, asm.Unit{Base: "stage" + set.name, Arch: set.isa.Arch, Generate: func(f *asm.File) { stages(f, set.isa, set.name) }})
		}
	}
	asm.Main("vec", asm.Table{Entries: entries}, units...)
}

// entries are what Kernels call. Strides are in elements here, in bytes in the assembly.
var entries = []asm.Entry{
	{Name: "unary", Doc: "applies op to rows of n elements.", Declines: true,
		Params: "op Op, dst, src *float32, n, rows, ldd, lds int, p *Params", Portable: "genericUnary(op, dst, src, n, rows, ldd, lds, p)"},
	{Name: "binary", Doc: "writes a op b for rows of n elements.",
		Params:   "op BinaryOp, form Form, dst, a, b *float32, n, rows, ldd, lda, ldb int",
		Portable: "genericBinary(op, form, dst, a, b, n, rows, ldd, lda, ldb)"},
	{Name: "joinRows", Doc: "writes a op b for rows a of n elements that lie where at says, in elements from dst on, and rows b of src, one after the other.",
		Params: "op BinaryOp, dst, src *float32, at *int, n, rows int", Portable: "genericJoinRows(op, dst, src, at, n, rows)"},
	{Name: "mulAdd", Doc: "writes x*scale + shift, bounded, with one scale and shift per row or per column.",
		Params:   "perRow bool, dst, x, scale, shift *float32, n, rows, ldd, ldx int, lo, hi float32",
		Portable: "genericMulAdd(perRow, dst, x, scale, shift, n, rows, ldd, ldx, lo, hi)"},
	{Name: "softmax", Doc: "writes the softmax of rows of src*scale + mask, or its logarithm.",
		Params:   "logarithm bool, dst, src, mask *float32, n, rows, ldd, lds, ldm, fetched int, scale float32",
		Portable: "genericSoftmax(logarithm, dst, src, mask, n, rows, ldd, lds, ldm, scale)"},
	{Name: "norm", Doc: "normalises rows.",
		Params:   "rms bool, dst, src, gamma, beta *float32, n, rows, ldd, lds, fetched int, eps float32",
		Portable: "genericNorm(rms, dst, src, gamma, beta, n, rows, ldd, lds, eps)"},
	{Name: "softmaxColumns", Doc: "writes the softmax of columns of rows.", Params: "dst, src, work *float32, n, rows, ldd, lds int",
		Portable: "genericSoftmaxColumns(dst, src, n, rows, ldd, lds)"},
	{Name: "moments", Doc: "writes mean and 1/√(variance + eps) of each row.", Params: "dst, src *float32, n, rows, lds int, eps float32",
		Portable: "genericMoments(dst, src, n, rows, lds, eps)"},
	{Name: "streams", Doc: "reports whether flushLines has streaming stores.", Params: "", Result: "bool", Portable: "return false"},
	{Name: "flushLines", Doc: "copies lines of 16 floats past the caches, and has as many from a and from b on fetched; dst begins at one.", Params: "dst, src, a, b *float32, lines int",
		Portable: "copy(view(dst, 16*lines), view(src, 16*lines))"},
	{Name: "fence", Doc: "has what flushLines wrote seen by others before any later store.", Params: "", Portable: ""},
	{Name: "reduce", Doc: "writes one number per row.",
		Params: "op ReduceOp, dst, src *float32, n, rows, lds int", Portable: "genericReduce(op, dst, src, n, rows, lds)"},
	{Name: "reduceColumns", Doc: "combines each column into the number at its place in dst.",
		Params: "op ReduceOp, dst, src *float32, n, rows, lds int", Portable: "genericReduceColumns(op, dst, src, n, rows, lds)"},
	{Name: "lstm", Doc: "is the element-wise part of an LSTM cell.",
		Params: "i, o, f, g, prev, cell, hidden *float32, n int", Portable: "genericLSTM(i, o, f, g, prev, cell, hidden, n)"},
	{Name: "gruReset", Doc: "is the reset part of a GRU cell.",
		Params: "dst, r, x, y *float32, n int", Portable: "genericGRUReset(dst, r, x, y, n)"},
	{Name: "gru", Doc: "is the update part of a GRU cell.",
		Params: "dst, z, h, prev *float32, n int", Portable: "genericGRU(dst, z, h, prev, n)"},
}

// ctx is one kernel being written, for one instruction set.
//
// Vector registers 0 to 7 are for the body. Constants and parameters are spread over registers from the top (31, or 14 on
// AVX2) down to 8; what does not fit is a memory operand. Register 15 (AVX2), 31 (NEON) or K1 is the mask of the tail. The body is
// run twice: once to see which constants it uses, once to write. Instructions are those of AVX2, or of AVX-512 where that is asked for;
// gen_neon.go says them in those of NEON.
type ctx struct {
	asm.Body
	file   *asm.File
	isa    asm.ISA
	keys   map[string]*constant
	order  []string
	params string    // register that points to the parameters
	held   *[]string // where instructions go in place of the function; nil: to the function
	first  int       // body register that is number 0
}

// constant is a broadcast value: a constant or, with param ≥ 0, an element of the parameters.
type constant struct {
	bits   uint32
	param  int
	sticky bool // must be in a register
	place  string
}

// bodyRegisters are the registers that a body has, unless its kernel says how many it takes.
const bodyRegisters = 8

// kernel writes a function. body is called with an argument that collects constants first.
func kernel(f *asm.File, isa asm.ISA, name, doc string, args []asm.Arg, body func(c *ctx)) {
	kernelOf(f, isa, bodyRegisters, name, doc, args, body)
}

// kernelOf is kernel of a body that takes so many registers.
func kernelOf(f *asm.File, isa asm.ISA, registers int, name, doc string, args []asm.Arg, body func(c *ctx)) {
	scratch := asm.New("scratch", isa.Arch)
	first := &ctx{Body: isa.Body(scratch.Func(name, doc, args...), neonMemory, neonScratch), file: scratch, isa: isa, keys: map[string]*constant{}}
	body(first)
	rank := func(k string) int {
		if c := first.keys[k]; c.sticky || c.param >= 0 {
			return 0
		}
		return 1
	}
	sort.SliceStable(first.order, func(i, j int) bool { return rank(first.order[i]) < rank(first.order[j]) })
	c := &ctx{Body: isa.Body(f.Func(name, doc, args...), neonMemory, neonScratch), file: f, isa: isa, keys: first.keys, order: first.order}
	top := isa.Registers - 1
	if !isa.Masks {
		top-- // the mask of the tail
	}
	lowest := registers
	if c.neon() {
		lowest = neonFirst
	}
	for i, k := range c.order {
		if reg := top - i; reg >= lowest {
			c.keys[k].place = isa.R(reg)
		} else if rank(k) == 0 {
			panic(name + ": too many constants that must be in registers")
		} else {
			c.keys[k].place = c.table(c.keys[k].bits)
		}
	}
	body(c)
}

// table returns the address of a constant in memory, eight times over.
func (c *ctx) table(bits uint32) string {
	return c.file.Data(fmt.Sprintf("k%08x", bits), bits, bits, bits, bits, bits, bits, bits, bits)
}

// preload loads the constants that have registers. params is the register that points to the parameters, if there are any.
func (c *ctx) preload(params string) {
	for _, k := range c.order {
		v := c.keys[k]
		switch {
		case v.place == "" || strings.Contains(v.place, "<>"):
		case v.param >= 0:
			c.I("VBROADCASTSS %d(%s), %s", 4*v.param, params, v.place)
		default:
			c.I("VBROADCASTSS %s, %s", c.table(v.bits), v.place)
		}
	}
}

func (c *ctx) use(key string, v constant) string {
	old, ok := c.keys[key]
	if !ok {
		c.keys[key] = &v
		c.order = append(c.order, key)
		return c.isa.R(8)
	}
	old.sticky = old.sticky || v.sticky
	if old.place == "" {
		return c.isa.R(8)
	}
	return old.place
}

// k returns the operand of a constant: a register, or memory, which may stand only as an instruction's first source.
func (c *ctx) k(v float64) string { return c.bits(math.Float32bits(float32(v))) }

// reg returns the register of a constant.
func (c *ctx) reg(v float64) string {
	b := math.Float32bits(float32(v))
	return c.use(fmt.Sprintf("%08x", b), constant{bits: b, param: -1, sticky: true})
}

// bits is k for a bit pattern.
func (c *ctx) bits(b uint32) string {
	return c.use(fmt.Sprintf("%08x", b), constant{bits: b, param: -1})
}

// param returns the register of parameter i.
func (c *ctx) param(i int) string { return c.use(fmt.Sprintf("p%d", i), constant{param: i}) }

// op writes an instruction on whole vectors; a constant in memory is broadcast where the instruction set asks for it.
func (c *ctx) op(name string, operands ...string) {
	list := strings.Join(operands, ", ")
	if strings.Contains(list, "<>") {
		name += c.isa.Broadcast
	}
	c.I("%s %s", name, list)
}

// set copies a constant to a register.
func (c *ctx) set(operand, x string) {
	if c.isa.Broadcast != "" && strings.Contains(operand, "<>") {
		c.I("VBROADCASTSS %s, %s", operand, x)
		return
	}
	c.I("VMOVUPS %s, %s", operand, x)
}

// r returns body register i.
func (c *ctx) r(i int) string {
	if i >= bodyRegisters {
		panic("body registers are 0 to 7")
	}
	return c.isa.R(c.first + i)
}

// I writes an instruction.
func (c *ctx) I(format string, args ...any) {
	if c.held == nil {
		c.Body.I(format, args...)
		return
	}
	*c.held = append(*c.held, fmt.Sprintf(format, args...))
}

// interleave writes body for count vectors at once, one instruction of each by turns, where number u has the registers from u times registers on. body
// is straight, and its instructions go by way of I, where count is above 1. A processor looks for what it can compute in few instructions ahead, most of which wait for the one before where a function is long: so
// more of them do not.
func (c *ctx) interleave(count, registers int, body func(u int)) {
	if count == 1 {
		body(0)
		return
	}
	lists := make([][]string, count)
	for u := range lists {
		c.held, c.first = &lists[u], u*registers
		body(u)
	}
	c.held, c.first = nil, 0
	for i := range lists[0] {
		for _, list := range lists {
			c.Body.I("%s", list[i])
		}
	}
}

// zero clears a register.
func (c *ctx) zero(x string) {
	if c.held != nil {
		c.I("VXORPS %s, %s, %s", x, x, x)
		return
	}
	c.Clear(c.isa, x)
}

// tailMask makes the mask of n modulo the width; n is an argument. It uses CX and DX.
func (c *ctx) tailMask() {
	if c.neon() {
		c.neonTailMask()
		return
	}
	c.Load("n", "CX")
	c.I("ANDQ $%d, CX", c.isa.Lanes-1)
	if c.isa.Masks {
		c.I("MOVL $1, DX")
		c.I("SHLL CX, DX")
		c.I("DECL DX")
		c.I("KMOVW DX, %s", c.isa.Mask())
		return
	}
	var words []uint32
	for range c.isa.Lanes {
		words = append(words, 0xffffffff)
	}
	c.I("SHLQ $2, CX")
	c.I("NEGQ CX")
	c.I("LEAQ %s, DX", c.file.Data("tail", append(words, make([]uint32, c.isa.Lanes)...)...))
	c.I("VMOVUPS %d(DX)(CX*1), %s", c.isa.Size(), c.isa.Mask())
}

// load and store move a vector, masked in the tail.
func (c *ctx) load(addr, x string, tail bool) {
	if c.neon() {
		if tail {
			c.neonTail(addr, x, true)
		} else {
			c.I("VMOVUPS %s, %s", addr, x)
		}
		return
	}
	if !tail {
		c.I("VMOVUPS %s, %s", addr, x)
		return
	}
	c.LoadVector(c.isa, addr, x, c.isa.Mask())
}

func (c *ctx) store(x, addr string, tail bool) {
	if c.neon() {
		if tail {
			c.neonTail(addr, x, false)
		} else {
			c.I("VMOVUPS %s, %s", x, addr)
		}
		return
	}
	if !tail {
		c.I("VMOVUPS %s, %s", x, addr)
		return
	}
	c.StoreVector(c.isa, x, addr, c.isa.Mask())
}

// row runs body for each vector of a row of n elements (an argument), advancing the pointers; the tail comes last. CX counts.
func (c *ctx) row(ptrs []string, body func(tail bool)) {
	c.rowUnrolled(ptrs, 1, func(_ int, tail bool) { body(tail) })
}

// rowUnrolled runs body for unroll vectors at a time, u = 0 to unroll-1, the first at the pointers and the others at
// 4*w*u bytes after; then, with u = 0, vector by vector, then the tail.
func (c *ctx) rowUnrolled(ptrs []string, unroll int, body func(u int, tail bool)) {
	c.rowOf(ptrs, unroll, func() {
		for u := range unroll {
			body(u, false)
		}
	}, func(tail bool) { body(0, tail) })
}

// rowOf runs some for unroll vectors at a time, then one for each that is left, then it for the tail.
func (c *ctx) rowOf(ptrs []string, unroll int, some func(), one func(tail bool)) {
	c.Load("n", "CX")
	if unroll > 1 {
		c.While("CX", unroll*c.isa.Lanes, func() {
			some()
			for _, p := range ptrs {
				c.I("ADDQ $%d, %s", unroll*c.isa.Size(), p)
			}
		})
	}
	c.While("CX", c.isa.Lanes, func() {
		one(false)
		for _, p := range ptrs {
			c.I("ADDQ $%d, %s", c.isa.Size(), p)
		}
	})
	end := c.NewLabel("rowend")
	c.I("TESTQ CX, CX")
	c.I("JZ %s", end)
	one(true)
	c.Label(end)
}

// rows runs body for each of the rows (an argument, above zero), then adds the strides (arguments, bytes) to the
// registers of the row pointers.
func (c *ctx) rows(strides map[string]string, body func()) {
	top := c.NewLabel("row")
	c.Label(top)
	body()
	for _, p := range sorted(strides) {
		if s := strides[p]; strings.HasPrefix(s, "$") {
			c.I("ADDQ %s, %s", s, p)
		} else {
			c.I("ADDQ %s, %s", c.Addr(s), p)
		}
	}
	c.I("DECQ %s", c.Addr("rows"))
	c.I("JNZ %s", top)
}

func sorted(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// args is a list of arguments: names with a type after a colon, pointers by default, integers for the usual names.
func args(names ...string) []asm.Arg {
	ints := map[string]bool{"n": true, "rows": true, "op": true}
	var list []asm.Arg
	for _, n := range names {
		name, typ, ok := strings.Cut(n, ":")
		switch {
		case ok:
		case ints[n] || strings.HasPrefix(n, "ld"):
			typ = "int"
		default:
			typ = "*float32"
		}
		list = append(list, asm.Typed(name, typ))
	}
	return list
}

// fold combines the lanes of x into all lanes of x with a commutative instruction: halves, quarters, pairs. t is scratch.
func (c *ctx) fold(op string, x, t int) {
	if c.neon() {
		c.neonFold(op, x, t)
		return
	}
	if c.isa.Lanes > 8 {
		c.I("VEXTRACTF64X4 $1, Z%d, Y%d", x, t)
		c.I("%s Y%d, Y%d, Y%d", op, t, x, x)
	}
	c.I("VEXTRACTF128 $1, Y%d, X%d", x, t)
	c.I("%s X%d, X%d, X%d", op, t, x, x)
	c.I("VPERMILPS $0x4e, X%d, X%d", x, t)
	c.I("%s X%d, X%d, X%d", op, t, x, x)
	c.I("VPERMILPS $0xb1, X%d, X%d", x, t)
	c.I("%s X%d, X%d, X%d", op, t, x, x)
	c.I("VBROADCASTSS X%d, %s", x, c.isa.R(x))
}

// selectIf writes dst = (a cmp b) ? yes : dst, where cmp is the predicate of VCMPPS and b may be memory. t is scratch and may
// be a or b.
func (c *ctx) selectIf(cmp int, a, b, yes, dst, t string) {
	if c.isa.Masks {
		c.op("VCMPPS", fmt.Sprintf("$%d", cmp), b, a, "K2")
		c.set2(yes, "K2", dst)
		return
	}
	c.op("VCMPPS", fmt.Sprintf("$%d", cmp), b, a, t)
	c.I("VBLENDVPS %s, %s, %s, %s", t, yes, dst, dst)
}

// set2 copies under a mask.
func (c *ctx) set2(yes, mask, dst string) {
	if strings.Contains(yes, "<>") {
		c.I("VBROADCASTSS %s, %s, %s", yes, mask, dst)
		return
	}
	c.I("VMOVUPS %s, %s, %s", yes, mask, dst)
}

// Predicates of VCMPPS.
const (
	cmpEQ    = 0
	cmpLT    = 1
	cmpUnord = 3
	cmpNLT   = 5
	cmpGT    = 14
)
