//go:build rdmacore && cgo && linux

package rdmacore

// The compiler flags and C libraries of the whole package.

// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -lrdmacm -libverbs
import "C"
