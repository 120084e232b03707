//go:build !linux

package main

import "os/exec"

func startPinned(cmd *exec.Cmd, _ ...int) error { return cmd.Start() }

func pinThread(int) {}
