package main

import "encoding/binary"

// fill writes the message with the given number to msg. Its bytes are a xorshift sequence
// that starts from the number, so other messages hardly ever contain the same bytes.
func fill(msg []byte, number uint64) {
	// The factor is odd, so the products of different numbers are different modulo 2^64.
	// Therefore the first words of different messages are different.
	word := (number + 1) * 0x9e3779b97f4a7c15
	for ; len(msg) >= 8; msg = msg[8:] {
		binary.LittleEndian.PutUint64(msg, word)
		word ^= word << 13
		word ^= word >> 7
		word ^= word << 17
	}
	for i := range msg {
		msg[i] = byte(word >> (8 * i))
	}
}
