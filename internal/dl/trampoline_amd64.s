//go:build linux || darwin

#include "textflag.h"

GLOBL ·trampolineABI0(SB), NOPTR|RODATA, $8
DATA ·trampolineABI0(SB)/8, $trampoline(SB)

// trampoline is called by the C convention on the system stack: DI points at a Frame. Arguments beyond the sixth lie on the
// stack; a function that has fewer does not look at them.
TEXT trampoline(SB), NOSPLIT, $112
	MOVQ DI, 96(SP)
	MOVQ DI, R11
	MOVQ 56(R11), AX
	MOVQ AX, 0(SP)
	MOVQ 64(R11), AX
	MOVQ AX, 8(SP)
	MOVQ 72(R11), AX
	MOVQ AX, 16(SP)
	MOVQ 80(R11), AX
	MOVQ AX, 24(SP)
	MOVQ 88(R11), AX
	MOVQ AX, 32(SP)
	MOVQ 96(R11), AX
	MOVQ AX, 40(SP)
	MOVQ 104(R11), AX
	MOVQ AX, 48(SP)
	MOVQ 112(R11), AX
	MOVQ AX, 56(SP)
	MOVQ 120(R11), AX
	MOVQ AX, 64(SP)
	MOVQ 128(R11), AX
	MOVQ AX, 72(SP)
	MOVQ 136(R11), AX
	MOVQ AX, 80(SP)
	MOVQ 144(R11), AX
	MOVQ AX, 88(SP)
	MOVQ 8(R11), DI
	MOVQ 16(R11), SI
	MOVQ 24(R11), DX
	MOVQ 32(R11), CX
	MOVQ 40(R11), R8
	MOVQ 48(R11), R9
	MOVQ 0(R11), R10
	XORL AX, AX
	CALL R10
	MOVQ 96(SP), R11
	MOVQ AX, 152(R11)
	XORL AX, AX
	RET
