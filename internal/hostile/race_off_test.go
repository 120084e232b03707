//go:build !race

package hostile_test

const memoryFactor = 1
