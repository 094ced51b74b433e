//go:build linux || darwin

#include "textflag.h"

GLOBL ·trampolineABI0(SB), NOPTR|RODATA, $8
DATA ·trampolineABI0(SB)/8, $trampoline(SB)

// trampoline is called by the C convention on the system stack: R0 points at a Frame. Arguments beyond the eighth lie on the
// stack; a function that has fewer does not look at them.
TEXT trampoline(SB), NOSPLIT, $0
	SUB $96, RSP
	MOVD R0, 80(RSP)
	MOVD R0, R9
	MOVD 72(R9), R10
	MOVD R10, 0(RSP)
	MOVD 80(R9), R10
	MOVD R10, 8(RSP)
	MOVD 88(R9), R10
	MOVD R10, 16(RSP)
	MOVD 96(R9), R10
	MOVD R10, 24(RSP)
	MOVD 104(R9), R10
	MOVD R10, 32(RSP)
	MOVD 112(R9), R10
	MOVD R10, 40(RSP)
	MOVD 120(R9), R10
	MOVD R10, 48(RSP)
	MOVD 128(R9), R10
	MOVD R10, 56(RSP)
	MOVD 136(R9), R10
	MOVD R10, 64(RSP)
	MOVD 144(R9), R10
	MOVD R10, 72(RSP)
	MOVD 8(R9), R0
	MOVD 16(R9), R1
	MOVD 24(R9), R2
	MOVD 32(R9), R3
	MOVD 40(R9), R4
	MOVD 48(R9), R5
	MOVD 56(R9), R6
	MOVD 64(R9), R7
	MOVD 0(R9), R10
	CALL (R10)
	MOVD 80(RSP), R9
	ADD $96, RSP
	MOVD R0, 152(R9)
	MOVD $0, R0
	RET
