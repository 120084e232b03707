//go:build linux && !race

package main

const memoryFactor = 1
