//go:build linux || darwin

#include "textflag.h"

GLOBL ·trampolineABI0(SB), NOPTR|RODATA, $8
DATA ·trampolineABI0(SB)/8, $trampoline(SB)

// trampoline is called by the C convention on the system stack: R0 points at a Frame.
TEXT trampoline(SB), NOSPLIT, $16
	MOVD R0, 8(RSP)
	MOVD R0, R9
	MOVD 8(R9), R0
	MOVD 16(R9), R1
	MOVD 24(R9), R2
	MOVD 32(R9), R3
	MOVD 40(R9), R4
	MOVD 48(R9), R5
	MOVD 0(R9), R10
	CALL (R10)
	MOVD 8(RSP), R9
	MOVD R0, 56(R9)
	MOVD $0, R0
	RET
