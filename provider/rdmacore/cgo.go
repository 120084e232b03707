//go:build rdmacore && cgo && linux

package rdmacore

// The libraries, for every file of the package.

// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo LDFLAGS: -lrdmacm -libverbs
import "C"
