//go:build race

package hostile_test

// memoryFactor is the growth of a process's memory with the race detector, whose
// documentation says 5 to 10.
const memoryFactor = 10
