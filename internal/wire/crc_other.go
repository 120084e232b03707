//go:build !amd64 || race

package wire

// hasCRCWords is false, because this build does not have the assembly code of crcWords.
// Only builds for amd64 have it. Builds with the race detector leave it out, because the
// race detector does not see the loads of assembly code.
const hasCRCWords = false

func crcWords(uint32, []byte) uint32 { panic("wire: no crcWords") }
