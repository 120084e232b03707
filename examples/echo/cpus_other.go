//go:build !linux

package main

// allowedCPUs is nil: loops are pinned on Linux only.
func allowedCPUs() []int { return nil }
