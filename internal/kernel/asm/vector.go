package asm

import "fmt"

// Mask returns the register that masks the tail of a row: mask register 1 where the set has such, else its last vector
// register.
func (v ISA) Mask() string {
	if v.Masks {
		return K(1)
	}
	return v.R(v.Registers - 1)
}

// Clear zeroes vector register x.
func (fn *Func) Clear(v ISA, x string) {
	switch v.letter {
	case "Z":
		fn.I("VPXORD %s, %s, %s", x, x, x)
	case "Y":
		fn.I("VXORPS %s, %s, %s", x, x, x)
	default:
		fn.I("VEOR %s.B16, %s.B16, %s.B16", x, x, x)
	}
}

// LoadVector reads the vector at addr into register x of an amd64 set. Lanes that mask, where it is not empty, leaves out are
// not read, and zero.
func (fn *Func) LoadVector(v ISA, addr, x, mask string) {
	switch {
	case v.Arch != "amd64":
		panic(fmt.Sprintf("asm: %v has no plain address of a vector", v.Set))
	case mask == "":
		fn.I("VMOVUPS %s, %s", addr, x)
	case v.Masks:
		fn.I("VMOVUPS.Z %s, %s, %s", addr, mask, x)
	default:
		fn.I("VMASKMOVPS %s, %s, %s", addr, mask, x)
	}
}

// StoreVector writes register x to the vector at addr, but for the lanes that mask, where it is not empty, leaves out.
func (fn *Func) StoreVector(v ISA, x, addr, mask string) {
	switch {
	case v.Arch != "amd64":
		panic(fmt.Sprintf("asm: %v has no plain address of a vector", v.Set))
	case mask == "":
		fn.I("VMOVUPS %s, %s", x, addr)
	case v.Masks:
		fn.I("VMOVUPS %s, %s, %s", x, mask, addr)
	default:
		fn.I("VMASKMOVPS %s, %s, %s", x, mask, addr)
	}
}
