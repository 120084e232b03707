//go:build linux && race

package main

// The race detector increases the use of memory by this factor. Its documentation says 5
// to 10.
const memoryFactor = 10
