//go:build !race

package gnetrdma_test

const raceEnabled = false
