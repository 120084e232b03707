//go:build linux && race

package soft

// seedDivisor reduces the number of seeds of simulations with the race detector. They
// take ten times as long with it, and use one goroutine, so they can not race.
const seedDivisor = 10
