//go:build !race

#include "textflag.h"

// This file computes a CRC by folding. Source: V. Gopal and others, "Fast CRC Computation
// for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.
//
// A block of 16 bytes that stands n bits before another block is folded into it: its low
// half is multiplied by x^(n+32) and its high half by x^(n-32), modulo the polynomial. All
// numbers have the bit order of crc32.IEEE, in which the lowest bit is the highest power.
// They are shifted by one bit, because a product of two such numbers is one bit too short.

// For a distance of 1024, 256 and 128 bits: the factors of the low and the high half. The
// first two are there twice, once for each half of a 256-bit register.
DATA factors<>+0x00(SB)/8, $0x1e88ef372 // x^1056
DATA factors<>+0x08(SB)/8, $0x14a7fe880 // x^992
DATA factors<>+0x10(SB)/8, $0x1e88ef372
DATA factors<>+0x18(SB)/8, $0x14a7fe880
DATA factors<>+0x20(SB)/8, $0x0f1da05aa // x^288
DATA factors<>+0x28(SB)/8, $0x15a546366 // x^224
DATA factors<>+0x30(SB)/8, $0x0f1da05aa
DATA factors<>+0x38(SB)/8, $0x15a546366
DATA factors<>+0x40(SB)/8, $0x1751997d0 // x^160
DATA factors<>+0x48(SB)/8, $0x0ccaa009e // x^96
GLOBL factors<>(SB), RODATA|NOPTR, $0x50

// For the reduction from 64 to 32 bits (Barrett): x^64, a mask, the polynomial, and the
// quotient of x^64 by the polynomial.
DATA reduce<>+0x00(SB)/8, $0x163cd6124
DATA reduce<>+0x08(SB)/8, $0
DATA reduce<>+0x10(SB)/8, $0x00000000ffffffff
DATA reduce<>+0x18(SB)/8, $0
DATA reduce<>+0x20(SB)/8, $0x1db710641
DATA reduce<>+0x28(SB)/8, $0x1f7011641
GLOBL reduce<>(SB), RODATA|NOPTR, $0x30

// Beginning at the byte n: a mask for VPSHUFB that moves the first n bytes of a block to
// its end, and clears the others.
DATA moveToEnd<>+0x00(SB)/8, $0x8080808080808080
DATA moveToEnd<>+0x08(SB)/8, $0x8080808080808080
DATA moveToEnd<>+0x10(SB)/8, $0x0706050403020100
DATA moveToEnd<>+0x18(SB)/8, $0x0f0e0d0c0b0a0908
GLOBL moveToEnd<>(SB), RODATA|NOPTR, $0x20

// func hasWideMultiply() bool
TEXT ·hasWideMultiply(SB), NOSPLIT, $0-1
	MOVL	$7, AX
	XORL	CX, CX
	CPUID
	SHRL	$10, CX // CPUID.(EAX=7, ECX=0):ECX, bit 10
	ANDL	$1, CX
	MOVB	CX, ret+0(FP)
	RET

// FOLD folds the block or blocks of a into b. It changes a and t.
#define FOLD(a, factors, b, t) \
	VPCLMULQDQ	$0x00, factors, a, t \
	VPCLMULQDQ	$0x11, factors, a, a \
	VPXOR	t, b, b \
	VPXOR	a, b, b

// FOLDLOAD folds the blocks of a into those at the address m, which it loads to a.
#define FOLDLOAD(m, factors, a, t) \
	VPCLMULQDQ	$0x00, factors, a, t \
	VPCLMULQDQ	$0x11, factors, a, a \
	VPXOR	m, a, a \
	VPXOR	t, a, a

// func crcWords(register uint32, b []byte) uint32
TEXT ·crcWords(SB), NOSPLIT, $0-36
	MOVQ	b_base+8(FP), SI
	MOVQ	b_len+16(FP), CX
	VMOVDQU	factors<>+0x40(SB), X8

	// The first block has 4, 8, 12 or 16 bytes, so the rest consists of whole blocks.
	LEAQ	-1(CX), AX
	ANDQ	$15, AX
	INCQ	AX
	MOVL	register+0(FP), DX
	VMOVD	DX, X0
	VPXOR	(SI), X0, X0
	LEAQ	moveToEnd<>(SB), DI
	VPSHUFB	(DI)(AX*1), X0, X0
	ADDQ	AX, SI
	SUBQ	AX, CX
	CMPQ	CX, $128
	JLT	blocks

	VMOVDQU	factors<>+0x00(SB), Y9
	VMOVDQU	factors<>+0x20(SB), Y10
	VMOVDQU	(SI), Y1
	VMOVDQU	32(SI), Y2
	VMOVDQU	64(SI), Y3
	VMOVDQU	96(SI), Y4
	VPXOR	X7, X7, X7
	FOLD(X0, X8, X7, X5)
	VPXOR	Y7, Y1, Y1
	ADDQ	$128, SI
	SUBQ	$128, CX
	JMP	check128
loop128:
	FOLDLOAD((SI), Y9, Y1, Y5)
	FOLDLOAD(32(SI), Y9, Y2, Y6)
	FOLDLOAD(64(SI), Y9, Y3, Y7)
	FOLDLOAD(96(SI), Y9, Y4, Y0)
	ADDQ	$128, SI
	SUBQ	$128, CX
check128:
	CMPQ	CX, $128
	JGE	loop128

	FOLD(Y1, Y10, Y2, Y5)
	FOLD(Y2, Y10, Y3, Y5)
	FOLD(Y3, Y10, Y4, Y5)
	VEXTRACTI128	$1, Y4, X0
	FOLD(X4, X8, X0, X5)
blocks:
	TESTQ	CX, CX
	JEQ	last
loop16:
	FOLDLOAD((SI), X8, X0, X5)
	ADDQ	$16, SI
	SUBQ	$16, CX
	JNE	loop16
last:
	VMOVDQU	reduce<>+0x00(SB), X1
	VMOVDQU	reduce<>+0x10(SB), X2
	VMOVDQU	reduce<>+0x20(SB), X3
	VPCLMULQDQ	$0x10, X8, X0, X4 // from 128 to 96 bits
	VPSRLDQ	$8, X0, X0
	VPXOR	X4, X0, X0
	VPSRLDQ	$4, X0, X4 // from 96 to 64 bits
	VPAND	X2, X0, X0
	VPCLMULQDQ	$0x00, X1, X0, X0
	VPXOR	X4, X0, X0
	VPAND	X2, X0, X4 // from 64 to 32 bits
	VPCLMULQDQ	$0x10, X3, X4, X4
	VPAND	X2, X4, X4
	VPCLMULQDQ	$0x00, X3, X4, X4
	VPXOR	X4, X0, X0
	VPEXTRD	$1, X0, AX
	MOVL	AX, ret+32(FP)
	VZEROUPPER
	RET
