//go:build linux && race

package soft

// seedDivisor reduces the number of seeds of simulations with the race detector. With it
// they take ten times as long. They use one goroutine, so the race detector can find
// nothing in them.
const seedDivisor = 10
