//go:build race

package hostile_test

// memoryFactor is the factor by which the memory use of a process may increase with the
// race detector. The documentation of the race detector says 5 to 10.
const memoryFactor = 10
