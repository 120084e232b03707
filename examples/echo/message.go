package main

import "encoding/binary"

// fill writes message number to msg. The bytes are a xorshift sequence that depends on
// the number, so that bytes of other messages and bytes at wrong offsets do not match.
func fill(msg []byte, number uint64) {
	word := (number + 1) * 0x9e3779b97f4a7c15 // The factor is odd, so different numbers give different words.
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
