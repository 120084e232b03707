//go:build linux && race

package connmgr

// seedDivisor divides the number of seeds, because the race detector makes simulations
// ten times slower.
const seedDivisor = 10
