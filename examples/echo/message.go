package main

import "encoding/binary"

// fill writes the message with a number: a xorshift sequence that starts at that
// number, so that neither old nor misplaced bytes pass for right.
func fill(msg []byte, number uint64) {
	word := (number + 1) * 0x9e3779b97f4a7c15 // odd: no two numbers start alike
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
