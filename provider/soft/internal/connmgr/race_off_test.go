//go:build linux && !race

package connmgr

const seedDivisor = 1
