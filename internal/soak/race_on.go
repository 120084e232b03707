//go:build linux && race

package main

// memoryFactor is the factor by which the race detector increases the use of memory. Its
// documentation says 5 to 10.
const memoryFactor = 10
