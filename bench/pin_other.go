//go:build !linux

package main

import "os/exec"

// processors returns -1 and -1: pinning works on Linux only.
func processors() (client, server int) { return -1, -1 }

func startPinned(cmd *exec.Cmd, _ int) error { return cmd.Start() }
