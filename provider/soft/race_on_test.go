//go:build linux && race

package soft

// seedDivisor thins out the seeds of simulations where each takes ten times as
// long, and nothing runs side by side that could race.
const seedDivisor = 10
