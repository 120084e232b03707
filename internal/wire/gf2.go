package wire

import "hash/crc32"

// This file computes with polynomials over GF(2), whose coefficients are bits. The
// register of a CRC is such a polynomial. Its most significant bit is the constant term.
// A zero byte multiplies the register by x to the power of eight.

// inversePowers has negative powers of x, for the function solve. The exponent at index
// i is the negative number of covered bits from the identification on, in packets of 4*i
// bytes.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one = 1 << 31
		// The covered data begins with the identification and ends before the ICRC. Its
		// length is that of the packet plus this number.
		fixed = ip4Size - 4 + udpSize - ICRCSize
	)
	power := divide(one, 8*fixed)
	for i := range powers {
		powers[i] = power
		power = divide(power, 8*4)
	}
	return powers
}()

// identSums says how the ICRC of the headers changes if the identification changes from
// 0 to another value. The first array is for the high byte and the second for the low
// byte. The whole change is the exclusive or of two entries.
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

// divide returns a divided by x to the power of n, modulo the generator polynomial.
func divide(a uint32, n int) uint32 {
	for range n {
		// If a has a constant term, x does not divide a. Adding the generator polynomial
		// removes the term.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply returns the product modulo the generator polynomial. It adds b multiplied by
// each power of x in a.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
