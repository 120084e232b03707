//go:build linux && race

package soft

// seedDivisor divides the number of seeds and of messages in simulations, because the
// race detector makes simulations ten times slower.
const seedDivisor = 10
