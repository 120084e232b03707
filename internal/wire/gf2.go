package wire

import "hash/crc32"

// The register of a CRC is a polynomial over GF(2) modulo the generator polynomial of
// the CRC. Its most significant bit is the constant term. A byte of zeros multiplies
// the register by x to the power of eight.

// inversePowers has powers of x for the function solve. The entry at index i is for a
// packet of 4*i bytes. Its exponent is minus the number of bits that the ICRC covers
// after the identification field begins. The array is constant.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one = 1 << 31
		// Number of bytes that the ICRC covers besides the packet itself.
		fixed = ip4Size - 4 + udpSize - ICRCSize
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums has two arrays, for the high and the low byte of an identification. The
// entry at an index is the amount by which a byte with that value changes the ICRC of
// the IPv4 and UDP headers. The amounts of both bytes can be added because the CRC is
// linear. The arrays are constant.
var identSums = func() (sums [2][256]ICRC) {
	const identification = 4 // Offset of the identification in the IPv4 header.
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

// divide divides a by x to the power of n.
func divide(a uint32, n int) uint32 {
	for range n {
		// If a has a constant term, x does not divide a. It then divides the sum of a
		// and the generator polynomial, which is equal to a modulo the generator.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply multiplies two polynomials: it adds, for each power of x in a, that multiple
// of b.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
