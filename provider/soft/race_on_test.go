//go:build linux && race

package soft

// seedDivisor reduces the number of seeds of each simulation: a test runs its usual
// number of seeds divided by seedDivisor. With the race detector a simulation takes ten
// times as long. A simulation runs in one goroutine, so more seeds would not make the
// race detector find more.
const seedDivisor = 10
