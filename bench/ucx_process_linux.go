package main

import (
	"os"
	"syscall"
)

// switches is how often a process that has ended was switched away from.
func switches(p *os.ProcessState) uint64 {
	used, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return uint64(used.Nvcsw + used.Nivcsw)
}
