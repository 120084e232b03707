package main

import (
	"os"
	"syscall"
)

// switches returns the number of context switches of a process that has exited.
func switches(p *os.ProcessState) uint64 {
	used, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return uint64(used.Nvcsw + used.Nivcsw)
}
