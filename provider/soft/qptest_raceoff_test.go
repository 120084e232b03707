//go:build linux && !race

package soft

const seedDivisor = 1
