//go:build !race

package wire

import "golang.org/x/sys/cpu"

// hasCRCWords reports whether the processor and the operating system support the
// instructions of crcWords: AVX2, SSSE3 and VPCLMULQDQ with 256 bits.
var hasCRCWords = cpu.X86.HasAVX2 && cpu.X86.HasPCLMULQDQ && hasWideMultiply()

// hasWideMultiply reports whether the processor has the instruction VPCLMULQDQ. The
// processor must have leaf 7 of CPUID, as all processors with AVX2 have.
func hasWideMultiply() bool

// crcWords adds bytes to the register of a CRC with the polynomial crc32.IEEE. The
// length of b is at least minCRCWords, and a multiple of 4. It takes half as long as
// crc32.Update.
//
//go:noescape
func crcWords(register uint32, b []byte) uint32
