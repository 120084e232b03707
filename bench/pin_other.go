//go:build !linux

package main

import "os/exec"

// processorList returns nil: pinning works on Linux only.
func processorList() []int { return nil }

func startPinned(cmd *exec.Cmd, _ ...int) error { return cmd.Start() }

func pinThread(int) {}
