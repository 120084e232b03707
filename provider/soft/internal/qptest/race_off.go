//go:build linux && !race

package qptest

// SeedDivisor divides the number of seeds and of messages in simulations.
const SeedDivisor = 1
