package shm

// CopyUncached copies like the built-in function copy. If possible, it stores past the
// caches: the processor writes the bytes to memory without bringing them into its caches.
// The destination must not overlap with src.
func CopyUncached(dst, src []byte) int {
	n := min(len(dst), len(src))
	done := copyLines(dst[:n], src[:n])
	copy(dst[done:n], src[done:n])
	return n
}
