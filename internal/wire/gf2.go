package wire

import "hash/crc32"

// This file computes with polynomials whose coefficients are single bits, that is
// polynomials over GF(2). The register of a CRC is such a polynomial, modulo the
// generator polynomial of the CRC. The most significant bit of the register is the
// constant term. When the CRC processes a byte of zeros, the register is multiplied by x
// to the power of eight.

// inversePowers has powers of x with negative exponents, for the function solve. The
// power at index i is for packets of 4*i bytes. Its exponent is -n. The number n is the
// number of bits from the beginning of the identification field to the end of the data
// that the ICRC covers. The array is never changed.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one = 1 << 31
		// From the identification field to the end of the covered data, there are as many
		// bytes as the packet has, plus this number. The rest of the IP header and the
		// UDP header come before the packet. The ICRC at the end of the packet is not
		// covered.
		fixed = ip4Size - 4 + udpSize - ICRCSize
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums says how an identification changes the ICRC of the IPv4 and UDP headers,
// compared with the identification 0. It has one array for the high byte and one for the
// low byte of the identification. The index in an array is the value of the byte. The CRC
// is linear, so the two changes can be combined with exclusive or. The arrays are never
// changed.
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
