//go:build linux && !race

package madcm

const seedDivisor = 1
