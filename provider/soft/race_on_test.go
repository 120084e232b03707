//go:build linux && race

package soft

// seedDivisor divides the number of seeds of each simulation. With the race detector a
// simulation takes ten times as long, and more seeds would find no more: it runs in one
// goroutine.
const seedDivisor = 10
