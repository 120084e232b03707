//go:build !linux

// Command soak runs on Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "soak: the soft device needs Linux")
	os.Exit(1)
}
