package wire

import "hash/crc32"

// This file computes with polynomials whose coefficients are single bits, that is
// polynomials over GF(2). The register of a CRC holds such a polynomial, modulo the
// generator polynomial of the CRC: the most significant bit of the register is the
// constant term. When the CRC processes a byte of zeros, the register is multiplied by x
// to the power of eight.

// inversePowers has the factors by which the function solve multiplies. They are powers
// of x with negative exponents. The factor at index i is for packets of 4*i bytes. Its
// exponent is -n, where n is the number of bits from the identification field to the end
// of the data that the ICRC covers. The array is never changed.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one = 1 << 31
		// The ICRC covers the data from the identification field to the end of the
		// packet, without the ICRC itself. This is the packet, plus the end of the IP
		// header and the UDP header, minus the ICRC. So its length is that of the packet
		// plus this number.
		fixed = ip4Size - 4 + udpSize - ICRCSize
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums says which bits of the ICRC of the IPv4 and UDP headers change if the
// identification is changed from 0 to another value. The first array is for the high byte
// of the identification, and the second for the low byte; the index is the value of the
// byte. The CRC is linear, so the exclusive or of the two entries is the change for the
// whole identification. The arrays are never changed.
var identSums = func() (sums [2][256]ICRC) {
	const identification = 4 // offset of the identification in the IPv4 header
	var headers [ip4Size + udpSize]byte
	zero := ICRC(0).add(headers[:])
	for place := range sums {
		for value := range sums[place] {
			headers[identification+place] = byte(value)
			sums[place][value] = ICRC(0).add(headers[:]) ^ zero
		}
		headers[identification+place] = 0
	}
	return sums
}()

// divide returns the polynomial a divided by x to the power of n, modulo the generator
// polynomial.
func divide(a uint32, n int) uint32 {
	for range n {
		// If a has a constant term, x does not divide a. The generator polynomial has a
		// constant term too, so x divides the sum of the two. Modulo the generator
		// polynomial, that sum is equal to a.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply returns the product of two polynomials, modulo the generator polynomial. For
// each power of x that occurs in a, it adds b multiplied by that power.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
