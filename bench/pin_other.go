//go:build !linux

package main

import "os/exec"

// processorList returns nil, because only Linux can pin.
func processorList() []int { return nil }

func startPinned(cmd *exec.Cmd, _ ...int) error { return cmd.Start() }

func pinThread(int) {}
