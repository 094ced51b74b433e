#include "textflag.h"

// func hasTimestamp() bool
TEXT ·hasTimestamp(SB), NOSPLIT, $0-1
	MOVL	$0x80000000, AX
	CPUID
	CMPL	AX, $0x80000001
	JB	absent
	MOVL	$0x80000001, AX
	CPUID
	SHRL	$27, DX
	ANDL	$1, DX
	MOVB	DX, ret+0(FP)
	RET
absent:
	MOVB	$0, ret+0(FP)
	RET

// func auxiliary() int32
TEXT ·auxiliary(SB), NOSPLIT, $0-4
	RDTSCP
	MOVL	CX, ret+0(FP)
	RET
