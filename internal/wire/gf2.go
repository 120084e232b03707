package wire

import "hash/crc32"

// This file computes with polynomials over GF(2), whose coefficients are bits. The most
// significant bit is the constant term.

// inversePowers has negative powers of x for solve(), by packet length / 4. The exponent
// is -n if the ICRC covers n bits from the identification on.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one = 1 << 31
		// For a packet of n bytes, the ICRC covers n+fixed bytes from the identification
		// on.
		fixed = ip4Size - 4 + udpSize - ICRCSize
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums says how the ICRC of the headers changes with each value of the
// identification's high byte and low byte.
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

// divide divides the polynomial a by x to the power of n, modulo the generator
// polynomial.
func divide(a uint32, n int) uint32 {
	for range n {
		// A polynomial with a constant term is not divisible by x. Adding the generator
		// polynomial removes the constant term.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply returns a*b modulo the generator polynomial: the sum of b*x^k for each term
// x^k of the polynomial a.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
