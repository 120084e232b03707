//go:build !linux

// Command soak runs on Linux only. On other systems it prints an error.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "soak: the soft device needs Linux")
	os.Exit(1)
}
