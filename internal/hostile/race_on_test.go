//go:build race

package hostile_test

// memoryFactor is the factor by which the race detector may increase memory use. The
// documentation of the race detector gives 5 to 10.
const memoryFactor = 10
