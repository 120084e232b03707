package wire

import "hash/crc32"

// This file computes with polynomials whose coefficients are single bits (GF(2)). The
// register of a CRC holds such a polynomial, modulo the CRC's generator polynomial. The
// most significant bit is the constant term. A byte of zeros multiplies the register by
// x to the power of eight.

// inversePowers has the factors for the function solve: negative powers of x. Index i is
// for packets of 4*i bytes. The exponent is -n, where n is the number of bits from the
// identification field to the end of the covered data.
var inversePowers = func() (powers [MaxPacket/4 + 1]uint32) {
	const (
		one = 1 << 31
		// The covered data ends where the ICRC begins. Its length from the
		// identification on is that of the packet plus this number.
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
// 0 to another value. The first array is for the high byte of the identification, the
// second for the low byte. The change for both is the exclusive or of two entries,
// because the CRC is linear.
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
		// x divides only a polynomial without a constant term. If a has one, adding the
		// generator polynomial removes it and does not change the result.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply returns the product modulo the generator polynomial. For each power of x in
// a, it adds b multiplied by that power.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
