//go:build race

package reactor_test

// maxOpenAllocations is the largest number of allocations for one connection. Under the
// race detector a sync.Pool drops objects at random, and each random number needs memory.
const maxOpenAllocations = 76
