//go:build !cgo || !linux

// Command rdmacore measures package rdmacore with a stub of libibverbs and librdmacm. This
// build can not do that: it needs Linux, cgo, the build tag rdmacore, and the headers of both
// libraries.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "rdmacore: this build can not measure: it lacks Linux or cgo.",
		"Install libibverbs-dev and librdmacm-dev (Debian), and run: go run -tags rdmacore ./bench/rdmacore")
	os.Exit(1)
}
