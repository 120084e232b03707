//go:build cgo && linux

package rdmacore

// The compiler flags of the whole package. Before glibc 2.34, dlopen(3) is in a library of
// its own.

// #cgo CFLAGS: -O2
// #cgo LDFLAGS: -ldl
import "C"
