package wire

import "hash/crc32"

// The register of a CRC is a polynomial over GF(2) modulo the generator polynomial of
// the CRC. Its most significant bit is the constant term. A byte of zeros multiplies
// the register by x to the power of eight.

// inversePowers has, at index i, the power of x by which solve divides for a packet of
// 4*i bytes. The exponent is the negative number of bits that the ICRC covers from the
// identification to the end. The array is constant.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one   = 1 << 31
		fixed = ip4Size - 4 + udpSize - ICRCSize // Bytes besides those of the packet.
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums has the contribution of each value of the high and the low byte of an
// identification to the ICRC of the IPv4 and UDP headers. The contributions can be
// added because the CRC is linear. The arrays are constant.
var identSums = func() (sums [2][256]ICRC) {
	const identification = 4 // Offset in the IPv4 header.
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
		// If a has a constant term, x does not divide it, but divides its sum with the
		// generator.
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
