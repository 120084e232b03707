//go:build rdmacore && cgo && linux

package rdmacore

// #cgo CFLAGS: -DRDMALOOP_LINKED
// #cgo LDFLAGS: -lrdmacm -libverbs
import "C"
