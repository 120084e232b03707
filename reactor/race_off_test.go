//go:build !race

package reactor_test

// maxOpenAllocations is the largest number of allocations for one connection:
// 63, and on processors with 32 bits 65.
const maxOpenAllocations = 65
