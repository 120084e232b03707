//go:build linux && race

package connmgr

// seedDivisor divides the number of seeds of each simulation, because the race detector
// makes simulations ten times slower. Fewer seeds are enough: a simulation runs in one
// goroutine, so it can have no races.
const seedDivisor = 10
