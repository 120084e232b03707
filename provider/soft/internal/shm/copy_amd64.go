//go:build !race

package shm

// copyLines copies whole cache lines to dst, past the caches. It returns how many bytes
// it has copied, which may be 0. The slice src is as long as dst.
//
//go:noescape
func copyLines(dst, src []byte) int
