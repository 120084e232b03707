//go:build !amd64 || race

package wire

// This build has no function crcWords, which is in assembly. The race detector would not
// see the loads of assembly code.
const hasCRCWords = false

func crcWords(uint32, []byte) uint32 { panic("wire: no crcWords") }
