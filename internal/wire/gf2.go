package wire

import "hash/crc32"

// A CRC register is a polynomial over GF(2) modulo the polynomial of the CRC;
// its most significant bit is the constant term. To move a byte of zeros
// through the register is to multiply it by x to the power of eight.

// inversePowers has at index i the power of x that undoes what the ICRC does to
// the identification of a packet of 4*i bytes: minus the number of bits that it
// covers from there to the end. It is never changed.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one   = 1 << 31
		fixed = ip4Size - 4 + udpSize - ICRCSize // bytes besides the packet's
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums has what the high and the low byte of an identification add to the
// ICRC of the headers of IPv4 and UDP: the CRC is linear. It is never changed.
var identSums = func() (sums [2][256]ICRC) {
	const identification = 4 // where it is in the header
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
