//go:build rdmacore && cgo && linux

package rdmacore

// This file has the compiler flags and the C libraries of the whole package.

// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -lrdmacm -libverbs
import "C"
