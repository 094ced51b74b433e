//go:build ignore

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// Bodies are written once, in the instructions of AVX2, of which they use few. This file says each of them in NEON's, where a vector has
// four lanes, no operand lies in memory, and the tail of a row is moved lane by lane.

// Registers of NEON that bodies do not know of: constants from memory, and what takes more than one instruction.
const (
	neonMemory  = 8
	neonScratch = 9
	neonFirst   = 10 // of constants
	neonAddress = "R25"
)

// neonGeneral are the general registers that stand for those of bodies.
var neonGeneral = map[string]string{
	"DI": "R0", "SI": "R1", "R8": "R2", "R9": "R3", "R10": "R4", "R11": "R5", "AX": "R6", "BX": "R7", "CX": "R8", "DX": "R9",
}

// neonThree are the words of instructions of two sources and one result, vd = vn op vm. Where one of two numbers is NaN, FMAX and FMIN
// return NaN: bodies that want another one's choose it behind.
var neonThree = map[string]uint32{
	"VADDPS": 0x4e20d400, "VSUBPS": 0x4ea0d400, "VMULPS": 0x6e20dc00, "VDIVPS": 0x6e20fc00, "VMAXPS": 0x4e20f400, "VMINPS": 0x4ea0f400,
	"VANDPS": 0x4e201c00, "VORPS": 0x4ea01c00, "VXORPS": 0x6e201c00, "VPADDD": 0x4ea08400, "VPSUBD": 0x6ea08400,
}

// neonTwo are those of one source.
var neonTwo = map[string]uint32{"VSQRTPS": 0x6ea1f800, "VCVTPS2DQ": 0x4e21a800, "VCVTDQ2PS": 0x4e21d800}

// neonRound are those of VROUNDPS by its mode: to the nearest, down, up, towards zero.
var neonRound = map[string]uint32{"$8": 0x4e218800, "$9": 0x4e219800, "$10": 0x4ea18800, "$11": 0x4ea19800}

const (
	neonFMLA  = 0x4e20cc00
	neonFMLS  = 0x4ea0cc00
	neonFCMEQ = 0x4e20e400
	neonFCMGT = 0x6ea0e400
	neonNOT   = 0x6e205800
	neonSSHR  = 0x4f000400
	neonSHL   = 0x4f005400
)

func (c *ctx) neon() bool { return c.isa.Arch == "arm64" }

// I emits an instruction of AVX2, or what does the same.
func (c *ctx) I(format string, args ...any) {
	line := format
	if len(args) > 0 {
		line = fmt.Sprintf(format, args...)
	}
	if !c.neon() {
		c.Func.I("%s", line)
		return
	}
	op, rest, _ := strings.Cut(line, " ")
	operands := strings.Split(rest, ", ")
	if !c.neonInteger(op, operands) && !c.neonMove(op, operands) && !c.neonScalar(op, operands) {
		c.neonVector(op, operands)
	}
}

// Load, While and Loop are those of asm.Func for the registers of bodies.
func (c *ctx) Load(name, reg string) { c.Func.Load(name, c.general(reg)) }

func (c *ctx) While(count string, step int, body func()) { c.Func.While(c.general(count), step, body) }

func (c *ctx) Loop(count string, body func()) { c.Func.Loop(c.general(count), body) }

// general returns the register that stands for one of a body.
func (c *ctx) general(reg string) string {
	if !c.neon() {
		return reg
	}
	r, ok := neonGeneral[reg]
	if !ok {
		panic("no register for " + reg)
	}
	return r
}

// number is the number of a vector register, X's and V's.
func number(reg string) int {
	n, err := strconv.Atoi(strings.TrimLeft(reg, "XV"))
	if err != nil || len(reg) < 2 || !strings.ContainsRune("XV", rune(reg[0])) {
		panic("no vector register: " + reg)
	}
	return n
}

func isVector(operand string) bool {
	return len(operand) > 1 && strings.ContainsRune("XV", rune(operand[0])) && operand[1] >= '0' && operand[1] <= '9'
}

// memory is an operand in memory with the register that stands for the body's.
func (c *ctx) memory(operand string) string {
	i := strings.IndexByte(operand, '(')
	if base := operand[i+1 : len(operand)-1]; base != "FP" {
		return operand[:i+1] + c.general(base) + ")"
	}
	return operand
}

// source returns the number of the vector register with an operand, a constant of which may lie in memory.
func (c *ctx) source(operand string) int {
	if isVector(operand) {
		return number(operand)
	}
	c.Func.I("MOVD $%s, %s", operand, neonAddress)
	c.Func.I("FMOVQ (%s), F%d", neonAddress, neonMemory)
	return neonMemory
}

// neonInteger emits what is done with general registers.
func (c *ctx) neonInteger(op string, o []string) bool {
	fn := c.Func
	switch op {
	case "MOVQ":
		fn.I("MOVD %s, %s", c.general(o[0]), c.general(o[1]))
	case "ADDQ", "SUBQ":
		arm := op[:3]
		switch {
		case o[0][0] == '$':
			fn.I("%s %s, %s", arm, o[0], c.general(o[1]))
		case strings.HasSuffix(o[0], "(FP)"):
			fn.I("MOVD %s, %s", o[0], neonAddress)
			fn.I("%s %s, %s", arm, neonAddress, c.general(o[1]))
		default:
			fn.I("%s %s, %s", arm, c.general(o[0]), c.general(o[1]))
		}
	case "DECQ": // an argument
		fn.I("MOVD %s, %s", o[0], neonAddress)
		fn.I("SUBS $1, %s, %s", neonAddress, neonAddress)
		fn.I("MOVD %s, %s", neonAddress, o[0])
	case "TESTQ": // a register with itself
		fn.I("CMP $0, %s", c.general(o[0]))
	case "JZ":
		fn.I("BEQ %s", o[0])
	case "JNZ":
		fn.I("BNE %s", o[0])
	case "JMP":
		fn.I("B %s", o[0])
	default:
		return false
	}
	return true
}

// neonMove emits moves of vectors and their lanes.
func (c *ctx) neonMove(op string, o []string) bool {
	fn := c.Func
	switch {
	case op == "VBROADCASTSS" && isVector(o[0]):
		fn.I("VDUP V%d.S[0], V%d.S4", number(o[0]), number(o[1]))
	case op == "VBROADCASTSS" && strings.Contains(o[0], "<>"):
		fn.I("VMOV V%d.B16, V%d.B16", c.source(o[0]), number(o[1])) // memory holds all lanes
	case op == "VBROADCASTSS":
		fn.I("FMOVS %s, F%d", c.memory(o[0]), number(o[1]))
		fn.I("VDUP V%d.S[0], V%d.S4", number(o[1]), number(o[1]))
	case op == "VMOVSS":
		fn.I("FMOVS F%d, %s", number(o[0]), c.memory(o[1]))
	case op != "VMOVUPS" && op != "VMOVAPS":
		return false
	case !isVector(o[1]):
		fn.I("FMOVQ F%d, %s", number(o[0]), c.memory(o[1]))
	case isVector(o[0]) || strings.Contains(o[0], "<>"):
		fn.I("VMOV V%d.B16, V%d.B16", c.source(o[0]), number(o[1]))
	default:
		fn.I("FMOVQ %s, F%d", c.memory(o[0]), number(o[1]))
	}
	return true
}

// neonScalar emits what is done with the lowest lane alone.
func (c *ctx) neonScalar(op string, o []string) bool {
	fn := c.Func
	arm := map[string]string{"VADDSS": "FADDS", "VDIVSS": "FDIVS", "VSQRTSS": "FSQRTS", "VCVTSI2SSQ": "SCVTFS"}[op]
	switch {
	case arm == "":
		return false
	case op == "VCVTSI2SSQ":
		fn.I("%s %s, F%d", arm, c.general(o[0]), number(o[2]))
	case op == "VSQRTSS":
		fn.I("%s F%d, F%d", arm, number(o[0]), number(o[2]))
	case isVector(o[0]):
		fn.I("%s F%d, F%d, F%d", arm, number(o[0]), number(o[1]), number(o[2]))
	default:
		fn.I("FMOVS %s, F%d", c.memory(o[0]), neonMemory)
		fn.I("%s F%d, F%d, F%d", arm, neonMemory, number(o[1]), number(o[2]))
	}
	return true
}

func three(word uint32, vd, vn, vm int) uint32 {
	return word | uint32(vm)<<16 | uint32(vn)<<5 | uint32(vd)
}

func two(word uint32, vd, vn int) uint32 { return three(word, vd, vn, 0) }

// neonVector emits what is done lane by lane.
func (c *ctx) neonVector(op string, o []string) {
	fn := c.Func
	last := number(o[len(o)-1])
	if word, ok := neonThree[op]; ok {
		fn.Words(three(word, last, number(o[1]), c.source(o[0])))
		return
	}
	if word, ok := neonTwo[op]; ok {
		fn.Words(two(word, last, c.source(o[0])))
		return
	}
	switch op {
	case "VFMADD231PS":
		fn.Words(three(neonFMLA, last, number(o[1]), c.source(o[0])))
	case "VFNMADD231PS":
		fn.Words(three(neonFMLS, last, number(o[1]), c.source(o[0])))
	case "VFMADD213PS":
		fn.I("VMOV V%d.B16, V%d.B16", c.source(o[0]), neonScratch)
		fn.Words(three(neonFMLA, neonScratch, number(o[1]), last))
		fn.I("VMOV V%d.B16, V%d.B16", neonScratch, last)
	case "VROUNDPS":
		fn.Words(two(neonRound[o[0]], last, number(o[1])))
	case "VPSRAD":
		fn.Words(two(neonSSHR|(64-shift(o[0]))<<16, last, number(o[1])))
	case "VPSLLD":
		fn.Words(two(neonSHL|(32+shift(o[0]))<<16, last, number(o[1])))
	case "VCMPPS":
		c.neonCompare(o[0], number(o[2]), c.source(o[1]), last)
	case "VBLENDVPS": // of masks whose lanes have all bits or none
		if number(o[2]) != last {
			panic("a blend of three registers")
		}
		fn.I("VBIT V%d.B16, V%d.B16, V%d.B16", number(o[0]), number(o[1]), last)
	default:
		panic("no instruction of NEON for " + op)
	}
}

func shift(operand string) uint32 {
	n, err := strconv.Atoi(strings.TrimPrefix(operand, "$"))
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

// neonCompare writes d = a cmp b, lanes of all bits or none.
func (c *ctx) neonCompare(predicate string, a, b, d int) {
	switch predicate {
	case fmt.Sprint("$", cmpEQ):
		c.Words(three(neonFCMEQ, d, a, b))
	case fmt.Sprint("$", cmpLT):
		c.Words(three(neonFCMGT, d, b, a))
	case fmt.Sprint("$", cmpGT):
		c.Words(three(neonFCMGT, d, a, b))
	case fmt.Sprint("$", cmpNLT):
		c.Words(three(neonFCMGT, d, b, a), two(neonNOT, d, d))
	case fmt.Sprint("$", cmpUnord):
		if a != b {
			panic("two numbers, of which one may be NaN")
		}
		c.Words(three(neonFCMEQ, d, a, a), two(neonNOT, d, d))
	default:
		panic("no comparison " + predicate)
	}
}

// neonHorner is horner without moves: a product is added to a coefficient, in p and another register by turns.
func (c *ctx) neonHorner(x, p string, coefs []float64) {
	at, other := number(p), neonScratch
	if len(coefs)%2 == 0 {
		at, other = other, at
	}
	set := func(v float64, to int) {
		operand := c.k(v)
		if isVector(operand) {
			c.Func.I("VMOV V%d.B16, V%d.B16", number(operand), to)
			return
		}
		c.Func.I("MOVD $%s, %s", operand, neonAddress)
		c.Func.I("FMOVQ (%s), F%d", neonAddress, to)
	}
	set(coefs[len(coefs)-1], at)
	for i := len(coefs) - 2; i >= 0; i-- {
		set(coefs[i], other)
		c.Words(three(neonFMLA, other, at, number(x)))
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
	ones := uint32(0xffffffff)
	c.Load("n", "CX")
	c.Func.I("AND $3, R8")
	c.Func.I("MOVD $%s, R9", c.file.Data("tail", ones, ones, ones, ones, 0, 0, 0, 0))
	c.Func.I("SUB R8<<2, R9")
	c.Func.I("FMOVQ 16(R9), F%d", number(c.isa.Mask()))
}

// neonTail moves the one to three lanes of a tail, of which register CX has the number, as bodies count.
func (c *ctx) neonTail(addr, x string, load bool) {
	fn, end := c.Func, c.NewLabel("tail")
	v, at := number(x), c.memory(addr)
	if load {
		fn.I("FMOVS %s, F%d", at, v) // and zeros
	} else {
		fn.I("FMOVS F%d, %s", v, at)
	}
	i := strings.IndexByte(at, '(')
	off := at[:i]
	if off == "" {
		off = "0"
	}
	for lane := 1; lane < 3; lane++ {
		fn.I("CMP $%d, R8", lane)
		fn.I("BLE %s", end)
		fn.I("ADD $(%s+%d), %s, %s", off, 4*lane, at[i+1:len(at)-1], neonAddress)
		if load {
			fn.I("VLD1 (%s), V%d.S[%d]", neonAddress, v, lane)
		} else {
			fn.I("VST1 V%d.S[%d], (%s)", v, lane, neonAddress)
		}
	}
	fn.Label(end)
}

// neonSelectSign writes dst = x has its sign bit set ? yes : dst.
func (c *ctx) neonSelectSign(x, yes, dst string) {
	c.Words(two(neonSSHR|(64-31)<<16, neonScratch, number(x)))
	c.Func.I("VBIT V%d.B16, V%d.B16, V%d.B16", neonScratch, number(yes), number(dst))
}

