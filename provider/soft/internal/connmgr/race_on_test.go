//go:build linux && race

package connmgr

// seedDivisor is the number by which a simulation divides the number of its seeds. It is
// larger than 1 if the race detector is used, because a simulation then takes ten times
// as long. The race detector would find nothing more with all seeds, because a
// simulation runs in one goroutine.
const seedDivisor = 10
