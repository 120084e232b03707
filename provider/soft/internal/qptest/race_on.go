//go:build linux && race

package qptest

// SeedDivisor divides the number of seeds and of messages in simulations, because the
// race detector makes simulations ten times slower.
const SeedDivisor = 10
