package wire

import "hash/crc32"

// A CRC register is a polynomial over GF(2) modulo the polynomial of the CRC;
// its most significant bit is the constant term. To move a byte of zeros
// through the register is to multiply it by x to the power of eight.

// behindIdent is how many bytes the ICRC covers from the Ident to the end in a
// packet of length n: the rest of IP and UDP header, and the packet without ICRC.
func behindIdent(n int) int { return ip4Size - 4 + udpSize + n - ICRCSize }

// inversePowers has x to the power of -8*behindIdent(4*i) at index i. It is
// never changed.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const one = 1 << 31
	power := divide(one, 8*behindIdent(0))
	for i := range powers {
		powers[i] = power
		power = divide(power, 32)
	}
	return powers
}()

// divide divides a by x, n times over.
func divide(a uint32, n int) uint32 {
	for range n {
		// Where there is a constant term, x divides the sum with the modulus.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply multiplies two polynomials: for each power of x in a, that multiple of b.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
