#include "textflag.h"

// func signature() (vendor uint32, model uint32)
TEXT ·signature(SB), NOSPLIT, $0-8
	MOVL $0, AX
	XORL CX, CX
	CPUID
	MOVL BX, vendor+0(FP)
	MOVL $1, AX
	XORL CX, CX
	CPUID
	MOVL AX, model+4(FP)
	RET

// func describe(leaf, sub uint32) (a, b, c uint32)
TEXT ·describe(SB), NOSPLIT, $0-20
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	RET
