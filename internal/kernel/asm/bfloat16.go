package asm

import (
	"fmt"
	"strconv"
	"strings"
)

// Instructions of AVX-512 BF16, which Go's assembler lacks. Operands are registers of 512 bits and stand in Go's order, the result last.

// DotPairs emits VDPBF16PS: to each float32 of sum it adds the products of the two bfloat16 that stand there in a and b.
func (fn *Func) DotPairs(a, b, sum string) {
	fn.evex(f3, 0x52, a, b, sum)
}

// RoundPairs emits VCVTNE2PS2BF16: the 16 float32 of low and, behind them, those of high become bfloat16, rounded to nearest, ties to even.
func (fn *Func) RoundPairs(low, high, result string) {
	fn.evex(f2, 0x72, low, high, result)
}

// evex emits an instruction of three 512-bit registers of the map 0F38, without a mask: the operand that a memory operand might
// replace, the other one, and the result. prefix numbers 66, F3 and F2 from 1.
func (fn *Func) evex(prefix, opcode byte, rm, v, reg string) {
	m, n, r := wideNumber(rm), wideNumber(v), wideNumber(reg)
	bit := func(x byte, from, to uint) byte { return x >> from & 1 << to }
	fn.upper = true
	fn.Bytes(0x62,
		(bit(r, 3, 7)|bit(m, 4, 6)|bit(m, 3, 5)|bit(r, 4, 4))^0xf0|2,
		n&15<<3^0x78|4|prefix,
		0x40|bit(n, 4, 3)^8,
		opcode, 0xc0|r&7<<3|m&7)
}

// wideNumber returns the number of a 512-bit register.
func wideNumber(name string) byte {
	digits, ok := strings.CutPrefix(name, "Z")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > 31 {
		panic(fmt.Sprintf("asm: %q is no 512-bit register", name))
	}
	return byte(n)
}
