//go:build linux && race

package soft

// seedDivisor divides the number of seeds of each simulation, which is ten times slower
// with the race detector. Each simulation runs in one goroutine.
const seedDivisor = 10
