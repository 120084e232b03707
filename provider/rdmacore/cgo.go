//go:build rdmacore && cgo && linux

package rdmacore

// The C libraries and compiler flags of the package.

// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -lrdmacm -libverbs
import "C"
