package asm

import (
	"fmt"
	"strings"
)

// Instructions of arm64 on vectors that Go's assembler has no name for, or not with the operands that are wanted. Operands are numbers of vector
// registers.

func three(op uint32, vd, vn, vm int) uint32 { return op | uint32(vm)<<16 | uint32(vn)<<5 | uint32(vd) }

// words are instructions on whole vectors by Arm's names for them and for the lanes of the result, without the numbers of registers.
var words = map[string]uint32{
	// floats
	"fadd.4s": 0x4e20d400, "fsub.4s": 0x4ea0d400, "fmul.4s": 0x6e20dc00, "fdiv.4s": 0x6e20fc00, "fmax.4s": 0x4e20f400, "fmin.4s": 0x4ea0f400,
	"fmaxnm.4s": 0x4e20c400, // the other of a number and NaN
	"fmla.4s":   0x4e20cc00, "fmls.4s": 0x4ea0cc00, "fcmeq.4s": 0x4e20e400, "fcmge.4s": 0x6e20e400, "scvtf.4s": 0x4e21d800,
	"ucvtf.4s": 0x6e21d800, "fcvtns.4s": 0x4e21a800, "fcvtns.2d": 0x4e61a800,
	"faddp.4s": 0x6e20d400, "fcvtzs.4s": 0x4ea1b800,
	"fadd.2d": 0x4e60d400, "fsub.2d": 0x4ee0d400, "fmul.2d": 0x6e60dc00, "fmla.2d": 0x4e60cc00, "faddp.2d": 0x6e60d400,
	"fcvtl.4s": 0x0e217800, "fcvtl2.4s": 0x4e217800, "fcvtn.4h": 0x0e216800, "fcvtn2.8h": 0x4e216800,
	"fadd.8h": 0x4e401400, "bfcvtn.4h": 0x0ea16800, "bfcvtn2.8h": 0x4ea16800,
	"fcvtl.2d": 0x0e617800, "fcvtl2.2d": 0x4e617800, "fcvtn.2s": 0x0e616800, "fcvtn2.4s": 0x4e616800,
	// integers
	"add.2d": 0x4ee08400, "sub.2d": 0x6ee08400, "add.4s": 0x4ea08400, "sub.4s": 0x6ea08400, "mul.4s": 0x4ea09c00, "addp.4s": 0x4ea0bc00,
	"mls.4s": 0x6ea09400, "smax.16b": 0x4e206400, "smax.4s": 0x4ea06400, "smin.4s": 0x4ea06c00, "umax.16b": 0x6e206400, "and.16b": 0x4e201c00, "orr.16b": 0x4ea01c00, "eor.16b": 0x6e201c00, "mvn.16b": 0x6e205800, "bic.16b": 0x4e601c00,
	"sxtl.8h": 0x0f08a400, "sxtl2.8h": 0x4f08a400, "uxtl.8h": 0x2f08a400, "uxtl2.8h": 0x6f08a400,
	"sxtl.4s": 0x0f10a400, "sxtl2.4s": 0x4f10a400, "uxtl.4s": 0x2f10a400, "uxtl2.4s": 0x6f10a400,
	"xtn.4h": 0x0e612800, "xtn2.8h": 0x4e612800, "xtn.8b": 0x0e212800, "xtn2.16b": 0x4e212800,
	"saddlp.8h": 0x4e202800, "uaddlp.8h": 0x6e202800, "sadalp.4s": 0x4e606800, "uadalp.4s": 0x6e606800,
	"smlal.4s": 0x0e608000, "smlal2.4s": 0x4e608000,
	// products of integers of 8 bits, and of bfloat16
	"sdot.4s": 0x4e809400, "udot.4s": 0x6e809400, "usmmla.4s": 0x4e80ac00, "bfmmla.4s": 0x6e40ec00,
	// movements
	"zip1.4s": 0x4e803800, "zip2.4s": 0x4e807800, "zip1.2d": 0x4ec03800, "zip2.2d": 0x4ec07800, "uzp1.8h": 0x4e401800, "uzp2.8h": 0x4e405800, "uzp1.4s": 0x4e801800, "uzp2.4s": 0x4e805800,
	"trn1.16b": 0x4e002800, "trn2.16b": 0x4e006800, "zip1.8h": 0x4e403800, "trn1.8h": 0x4e402800, "trn2.8h": 0x4e406800, "trn1.4s": 0x4e802800, "trn2.4s": 0x4e806800,
	"trn1.2d": 0x4ec02800, "trn2.2d": 0x4ec06800,
}

// laneWords are products with four bytes, two bfloat16, or a number, of a vector.
var laneWords = map[string]uint32{
	"fmla.8h": 0x4f001000, "bfdot.4s": 0x4f40f000,
	"fmla.4s": 0x4f801000, "fmul.4s": 0x4f809000, "fmla.2d": 0x4fc01000, "sdot.4s": 0x4f80e000, "udot.4s": 0x6f80e000, "usdot.4s": 0x4f80f000, "sudot.4s": 0x4f00f000,
}

// shifts are shifts of lanes by a number, without it: those to the right count down from twice the bits of a lane.
var shifts = map[string]struct {
	word uint32
	bits int
	left bool
}{
	"shl.8h": {0x4f005400, 16, true}, "shl.4s": {0x4f005400, 32, true}, "shl.2d": {0x4f005400, 64, true}, "sshr.2d": {0x4f000400, 64, false},
	"sshr.8h": {0x4f000400, 16, false}, "ushr.8h": {0x6f000400, 16, false},
	"sshr.4s": {0x4f000400, 32, false}, "ushr.4s": {0x6f000400, 32, false}, "ushr.16b": {0x6f000400, 8, false},
}

// Loaded starts a function of arm64, whose doc comment is its name and what it does, and loads its arguments but for floats into general
// registers from R0 on, in their order.
func (f *File) Loaded(name, what string, args ...Arg) *Func {
	fn := f.Func(name, name+" "+strings.TrimSpace(what), args...)
	for i, a := range args {
		if !strings.HasPrefix(a.Type, "float") {
			fn.Load(a.Name, fmt.Sprintf("R%d", i))
		}
	}
	return fn
}

// V emits an instruction of arm64 by its name and that of its result's lanes, "smlal2.4s": the result d, and the sources, if it has two, in
// the order that Arm writes them.
func (fn *Func) V(name string, d int, sources ...int) {
	word, ok := words[name]
	if !ok {
		panic("asm: no word known for " + name)
	}
	for i, s := range sources {
		word |= uint32(s) << []int{5, 16}[i]
	}
	fn.Words(word | uint32(d))
}

// VLane is V with one lane of the last source for all lanes.
func (fn *Func) VLane(name string, d, n, m, lane int) {
	word, ok := laneWords[name]
	if !ok {
		panic("asm: no word known for a lane of " + name)
	}
	switch {
	case strings.HasSuffix(name, ".2d"):
		lane *= 2 // two bits of the number are of lanes of 32 bits
	case strings.HasSuffix(name, ".8h"):
		if m > 15 {
			panic(fmt.Sprintf("asm: no lane of V%d for %s, whose number would take the bit of one of lanes", m, name))
		}
		word, lane = word|uint32(lane&1)<<20, lane>>1
	}
	fn.Words(three(word, d, n, m) | uint32(lane&1)<<21 | uint32(lane>>1)<<11)
}

// VShift is V for a shift by a number of bits.
func (fn *Func) VShift(name string, d, n, by int) {
	s, ok := shifts[name]
	if !ok {
		panic("asm: no word known for " + name)
	}
	immediate := 2*s.bits - by
	if s.left {
		immediate = s.bits + by
	}
	fn.Words(s.word | uint32(immediate)<<16 | uint32(n)<<5 | uint32(d))
}
