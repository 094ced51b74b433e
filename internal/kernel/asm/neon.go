package asm

// Words of arm64 instructions on vectors of four floats that Go's assembler has no name for. Operands are numbers of vector
// registers.

// VFMLALane returns fmla vd.4s, vn.4s, vm.s[lane]: vd += vn * lane of vm, rounded once.
func VFMLALane(vd, vn, vm, lane int) uint32 {
	return 0x4f801000 | uint32(lane&1)<<21 | uint32(vm)<<16 | uint32(lane>>1)<<11 | uint32(vn)<<5 | uint32(vd)
}

// VFADD returns fadd vd.4s, vn.4s, vm.4s.
func VFADD(vd, vn, vm int) uint32 { return three(0x4e20d400, vd, vn, vm) }

// VFMAX returns fmax vd.4s, vn.4s, vm.4s, NaN where either is NaN.
func VFMAX(vd, vn, vm int) uint32 { return three(0x4e20f400, vd, vn, vm) }

// VFMIN returns fmin vd.4s, vn.4s, vm.4s, NaN where either is NaN.
func VFMIN(vd, vn, vm int) uint32 { return three(0x4ea0f400, vd, vn, vm) }

func three(op uint32, vd, vn, vm int) uint32 { return op | uint32(vm)<<16 | uint32(vn)<<5 | uint32(vd) }

// VFMULLane returns fmul vd.4s, vn.4s, vm.s[lane].
func VFMULLane(vd, vn, vm, lane int) uint32 {
	return 0x4f809000 | uint32(lane&1)<<21 | uint32(vm)<<16 | uint32(lane>>1)<<11 | uint32(vn)<<5 | uint32(vd)
}

// VFSUB returns fsub vd.4s, vn.4s, vm.4s.
func VFSUB(vd, vn, vm int) uint32 { return three(0x4ea0d400, vd, vn, vm) }
