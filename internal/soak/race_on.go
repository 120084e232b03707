//go:build linux && race

package main

// memoryFactor is by how much the race detector may multiply memory: its
// documentation says 5 to 10 times.
const memoryFactor = 10
