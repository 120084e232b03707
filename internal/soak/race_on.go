//go:build linux && race

package main

// memoryFactor is the growth of memory with the race detector, whose documentation says
// 5 to 10.
const memoryFactor = 10
