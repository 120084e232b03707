//go:build !race

package reactor_test

// maxOpenAllocations is the largest number of allocations for one connection.
const maxOpenAllocations = 64
