package wire

import "hash/crc32"

// This file computes with polynomials over GF(2), as CRCs do. Each bit is a coefficient.
// The most significant bit is the constant term.

// inversePowers has the negative powers of x that solve() needs. The index is the packet
// length divided by 4. If the ICRC covers n bits from the identification to the end, the
// exponent is -n.
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

// identSums says how the identification changes the ICRC of the headers. There is one
// table for each of the identification's two bytes.
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

// maskedByte is the offset of the byte of the BTH that the ICRC covers as ones.
const maskedByte = 4

// maskSums has values to add (XOR) to the ICRC of the IP and UDP headers. After that, the
// ICRC of headers and packet covers the masked byte as ones, whatever its value in the
// packet. The index is this value.
var maskSums = func() (sums [256]ICRC) {
	for value := range sums {
		// A change of the masked byte has the same effect on the CRC as a change of the
		// register just before this byte. For each byte from the start of the packet to
		// the masked byte, the CRC multiplies the register by x eight times. So the
		// change is divided by x as often, to get the change at the start of the packet.
		sums[value] = ICRC(divide(uint32(value^0xff), 8*maskedByte))
	}
	return sums
}()

// divide divides the polynomial a by x, n times, modulo the generator polynomial.
func divide(a uint32, n int) uint32 {
	for range n {
		// Only a polynomial without a constant term is divisible by x. If there is a
		// constant term, adding the generator polynomial removes it.
		odd := a >> 31
		a = (a^crc32.IEEE&-odd)<<1 | odd
	}
	return a
}

// multiply returns a*b modulo the generator polynomial.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
