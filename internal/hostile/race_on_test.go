//go:build race

package hostile_test

// The race detector increases the use of memory by this factor. Its documentation says 5
// to 10.
const memoryFactor = 10
