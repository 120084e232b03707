//go:build linux && race

package connmgr

// seedDivisor is the divisor by which a build with the race detector reduces the number
// of seeds of each simulation. With the race detector, a simulation takes ten times as
// long. It runs in one goroutine, so the race detector would find nothing.
const seedDivisor = 10
