package shm

import "os"

// A Process identifies a process of this host, as SO_PEERCRED reports it; see unix(7).
type Process struct {
	UID uint32
	PID int32 // process ID; 0 if the process is in another PID namespace
}

// ByteLimits limit how much memory a device maps because of its peers, in bytes. Zero
// means no limit. The peers choose the sizes of their memory regions, and files without
// pages cost them nothing. The Go runtime ends the process if it finds no free addresses.
type ByteLimits struct {
	Process uint64 // for one process
	All     uint64 // for all processes together
}

// mappedBytes counts the mapped bytes for each process. Memory that the device shares
// with its own process is not counted.
type mappedBytes struct {
	limits ByteLimits
	own    int32 // process ID of this process
	of     map[Process]uint64
	all    uint64
}

func newMappedBytes(limits ByteLimits) mappedBytes {
	return mappedBytes{limits: limits, own: int32(os.Getpid()), of: make(map[Process]uint64)}
}

// add counts n bytes. It returns false if a limit would be exceeded.
func (b *mappedBytes) add(p Process, n uint64) bool {
	if p.PID == b.own {
		return true
	}
	if exceeds(b.of[p], n, b.limits.Process) || exceeds(b.all, n, b.limits.All) {
		return false
	}
	b.of[p] += n
	b.all += n
	return true
}

// exceeds reports whether have+more is above the limit. The sum may overflow.
func exceeds(have, more, limit uint64) bool {
	return limit > 0 && (more > limit || have > limit-more)
}

func (b *mappedBytes) remove(p Process, n uint64) {
	if p.PID == b.own {
		return
	}
	b.all -= n
	if b.of[p] -= n; b.of[p] == 0 {
		delete(b.of, p)
	}
}
