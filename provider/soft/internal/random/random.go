// Package random returns numbers that a peer can not guess.
package random

import (
	"crypto/rand"
	"encoding/binary"
)

// Uint32 returns a random number with 32 bits. Any goroutine may call it.
func Uint32() uint32 { return uint32(Uint64()) }

// Uint64 returns a random number with 64 bits. Any goroutine may call it.
func Uint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error.
	return binary.LittleEndian.Uint64(b[:])
}
