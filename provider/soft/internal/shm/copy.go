package shm

// CopyUncached is like the built-in function copy, but stores past the caches if the
// processor can do that. The destination must not overlap with src.
func CopyUncached(dst, src []byte) int {
	n := min(len(dst), len(src))
	done := copyLines(dst[:n], src[:n])
	copy(dst[done:n], src[done:n])
	return n
}
