//go:build linux

package soft

import "runtime/debug"

// copyGuarded copies len(src) bytes to dst. It returns false if a page is missing; a part
// may be copied then. It is not inlined, so that mr.copy is.
//
//go:noinline
func copyGuarded(dst, src []byte) bool { return guarded(func() { copy(dst, src) }) }

// guarded calls fn, which accesses memory whose pages may be missing. It returns false if
// an access has failed. Without it, the failure ends the process with SIGBUS.
func guarded(fn func()) (ok bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if ok {
			return
		}
		if cause := recover(); !isFault(cause) {
			panic(cause)
		}
	}()
	fn()
	return true
}

// isFault reports whether a panic was caused by an access to memory: see
// debug.SetPanicOnFault.
func isFault(cause any) bool {
	_, ok := cause.(interface{ Addr() uintptr })
	return ok
}
