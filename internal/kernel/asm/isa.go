package asm

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// ISA is an instruction set as generators see it: where its kernels are built, and the vector registers that a body may
// plan with. What a body does not take from here it writes in the instruction set's own assembly.
type ISA struct {
	Set       isa.Set
	Arch      string // GOARCH
	Lanes     int    // float32 lanes of a vector
	Registers int    // vector registers
	Masks     bool   // there are mask registers; else masks are vectors, of lanes of all bits or none
	Broadcast string // suffix of an instruction that reads one float32 of memory for all lanes, "" where memory holds them all
	Exponents bool   // there are instructions that take numbers apart into mantissa and exponent, and put them together
	Round     string // instruction that rounds to whole numbers
	letter    string // of the vector registers' names
}

// AVX512 returns the instruction set of 512-bit vectors Z0 to Z31.
func AVX512() ISA {
	v := describe(isa.AVX512, "amd64", 32, "Z")
	v.Masks, v.Broadcast, v.Exponents, v.Round = true, ".BCST", true, "VRNDSCALEPS"
	return v
}

// AVX2 returns the instruction set of 256-bit vectors Y0 to Y15.
func AVX2() ISA {
	v := describe(isa.AVX2, "amd64", 16, "Y")
	v.Round = "VROUNDPS"
	return v
}

// NEON returns the instruction set of 128-bit vectors V0 to V31.
func NEON() ISA {
	v := describe(isa.NEON, "arm64", 32, "V")
	v.Round = "VROUNDPS" // the name of it in the generator of package vec, which says AVX2's instructions in NEON's
	return v
}

func describe(s isa.Set, arch string, registers int, letter string) ISA {
	return ISA{Set: s, Arch: arch, Lanes: s.Lanes(), Registers: registers, letter: letter}
}

// R returns the name of vector register i.
func (v ISA) R(i int) string {
	if i < 0 || i >= v.Registers {
		panic(fmt.Sprintf("asm: %v has no vector register %d", v.Set, i))
	}
	return fmt.Sprint(v.letter, i)
}

// Size returns the bytes of a vector.
func (v ISA) Size() int { return 4 * v.Lanes }

// Constant returns the name of the set in Go source.
func (v ISA) Constant() string {
	switch v.Set {
	case isa.AVX512:
		return "isa.AVX512"
	case isa.AVX2:
		return "isa.AVX2"
	case isa.NEON:
		return "isa.NEON"
	case isa.Portable: // written in Go
	}
	panic("asm: no kernels are generated for " + v.Set.String())
}

// X returns the name of 128-bit register i of amd64, the low part of the register of that number.
func X(i int) string { return fmt.Sprintf("X%d", i) }

// Y returns the name of 256-bit register i of amd64.
func Y(i int) string { return fmt.Sprintf("Y%d", i) }

// Z returns the name of 512-bit register i of amd64.
func Z(i int) string { return fmt.Sprintf("Z%d", i) }

// K returns the name of mask register i of AVX-512.
func K(i int) string { return fmt.Sprintf("K%d", i) }
