#include "textflag.h"

// func call(fn uintptr, args, data unsafe.Pointer, stack uintptr)
//
// The C function gets its arguments in DI and SI, and preserves BX (System V ABI, AMD64
// supplement, 3.2.1). The assembler marks call() as a function that writes SP. A traceback
// ends at such a function.
TEXT ·call(SB), NOSPLIT, $0-32
	MOVQ	fn+0(FP), AX
	MOVQ	args+8(FP), DI
	MOVQ	data+16(FP), SI
	MOVQ	stack+24(FP), CX
	MOVQ	SP, BX
	MOVQ	CX, SP
	CALL	AX
	MOVQ	BX, SP
	RET
