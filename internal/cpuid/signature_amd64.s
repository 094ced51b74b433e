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
