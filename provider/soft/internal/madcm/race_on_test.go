//go:build linux && race

package madcm

// seedDivisor divides the number of requests in a simulated flood, because the race
// detector makes the simulation ten times slower.
const seedDivisor = 10
