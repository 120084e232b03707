//go:build !linux

package main

// allowedCPUs returns nil, because loops are pinned on Linux only.
func allowedCPUs() []int { return nil }
