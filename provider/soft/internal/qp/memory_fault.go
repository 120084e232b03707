//go:build linux

package qp

import "runtime/debug"

// copyGuarded copies len(src) bytes to dst. If a page is missing, it returns false, and
// perhaps has copied a part. The compiler inlines mr.copy only because copyGuarded is not
// inlined.
//
//go:noinline
func copyGuarded(dst, src []byte) bool { return guarded(func() { copy(dst, src) }) }

// guarded calls fn, which accesses memory whose pages may be missing. It returns false
// if an access has failed. Without guarded(), a failed access ends the process with
// SIGBUS.
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

// isFault reports whether a panic was caused by an access to memory; see
// debug.SetPanicOnFault.
func isFault(cause any) bool {
	_, ok := cause.(interface{ Addr() uintptr })
	return ok
}
