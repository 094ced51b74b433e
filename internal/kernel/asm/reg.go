package asm

import "fmt"

// General lists the general-purpose registers that a leaf function in ABI0 may clobber, in a useful order. SP and BP are
// not among them; R15 may be used as long as no global symbol is addressed after it in a dynamically linked build.
var General = []string{"AX", "BX", "CX", "DX", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}

// X returns the name of 128-bit register i.
func X(i int) string { return fmt.Sprintf("X%d", i) }

// Y returns the name of 256-bit register i.
func Y(i int) string { return fmt.Sprintf("Y%d", i) }

// Z returns the name of 512-bit register i.
func Z(i int) string { return fmt.Sprintf("Z%d", i) }

// K returns the name of mask register i.
func K(i int) string { return fmt.Sprintf("K%d", i) }

// Width is a vector width in float32 lanes: 4, 8 or 16.
type Width int

// R returns the name of register i of this width.
func (w Width) R(i int) string {
	switch w {
	case 4:
		return X(i)
	case 8:
		return Y(i)
	case 16:
		return Z(i)
	}
	panic("asm: vectors have 4, 8 or 16 lanes")
}

// Bytes returns the size of one vector.
func (w Width) Bytes() int { return 4 * int(w) }
