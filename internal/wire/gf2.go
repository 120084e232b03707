package wire

import "hash/crc32"

// This file computes with polynomials over GF(2), because the register of a CRC is such a
// polynomial modulo the generator polynomial of the CRC. Its most significant bit is the
// constant term. When the CRC processes a byte of zeros, it multiplies the register by x
// to the power of eight.

// inversePowers has the powers of x that the function solve needs. The power at the index
// i is for a packet of 4*i bytes. Its exponent is negative: minus the number of bits from
// the beginning of the identification field to the end of the data that the ICRC covers.
// The array never changes.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one = 1 << 31
		// The number of these bytes is the length of the packet plus this number: headers
		// before the packet are covered too, and the ICRC itself is not.
		fixed = ip4Size - 4 + udpSize - ICRCSize
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums has one array for the high byte and one for the low byte of an
// identification. In each array, the entry at an index is the amount by which a byte with
// that value changes the ICRC of the IPv4 and UDP headers. The amounts of both bytes can
// be added, because the CRC is linear. The arrays never change.
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

// divide divides the polynomial a by x to the power of n.
func divide(a uint32, n int) uint32 {
	for range n {
		// If a has a constant term, x does not divide a. But x divides the sum of a and
		// the generator polynomial, and that sum is equal to a modulo the generator
		// polynomial.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply multiplies two polynomials: for each power of x in a, it adds the product of
// that power and b.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
