//go:build linux && race

package main

// memoryFactor is the largest factor by which the race detector is expected to increase
// the use of memory. The documentation of the race detector gives 5 to 10.
const memoryFactor = 10
