// Package random returns numbers that a peer can not guess.
package random

import (
	"crypto/rand"
	"encoding/binary"
)

// Uint32 returns a random number with 32 bits. Any goroutine may call it.
func Uint32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error.
	return binary.LittleEndian.Uint32(b[:])
}
