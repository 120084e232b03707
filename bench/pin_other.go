//go:build !linux

package main

import "os/exec"

// processors returns -1 for both processes: pinning works on Linux only.
func processors() (client, server int) { return -1, -1 }

func startPinned(cmd *exec.Cmd, _ int) error { return cmd.Start() }

func pinThread(int) {}
