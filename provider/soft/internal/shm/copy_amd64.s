//go:build !race

#include "textflag.h"

// func copyLines(dst, src []byte) int
//
// MOVNTO stores past the caches. It needs an aligned address, so misaligned memory is left
// to the caller. SFENCE orders these stores before later ones.
TEXT ·copyLines(SB), NOSPLIT, $0-56
	MOVQ	dst_base+0(FP), DI
	MOVQ	dst_len+8(FP), CX
	MOVQ	src_base+24(FP), SI
	XORQ	AX, AX
	TESTQ	$15, DI
	JNE	done
	ANDQ	$~63, CX
	MOVQ	CX, AX
	JEQ	done
line:
	MOVOU	(SI), X0
	MOVOU	16(SI), X1
	MOVOU	32(SI), X2
	MOVOU	48(SI), X3
	MOVNTO	X0, (DI)
	MOVNTO	X1, 16(DI)
	MOVNTO	X2, 32(DI)
	MOVNTO	X3, 48(DI)
	ADDQ	$64, SI
	ADDQ	$64, DI
	SUBQ	$64, CX
	JNE	line
	SFENCE
done:
	MOVQ	AX, ret+48(FP)
	RET
