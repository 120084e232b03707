package shm

import (
	"fmt"
	"os"

	"github.com/rdmaloop/rdmaloop/verbs"
)

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

// regionShare is the part of a limit that is kept for segments: a connection needs a
// segment, and does without regions. Arbitrary.
const regionShare = 8

// add counts n bytes, unless a limit would be exceeded. Then the error matches
// errPeerLimit or verbs.ErrNoResources. The parameter region is true for the memory of a
// region.
func (b *mappedBytes) add(p Process, n uint64, region bool) error {
	limits := b.limits
	if region {
		limits.Process -= limits.Process / regionShare
		limits.All -= limits.All / regionShare
	}
	switch {
	case p.PID == b.own:
		return nil
	case exceeds(b.of[p], n, limits.Process):
		return fmt.Errorf("%w: %d bytes to map in addition to %d", errPeerLimit, n, b.of[p])
	case exceeds(b.all, n, limits.All):
		return fmt.Errorf("%w: %d bytes to map in addition to %d of all processes", verbs.ErrNoResources, n, b.all)
	}
	b.of[p] += n
	b.all += n
	return nil
}

// errPeerLimit means that a peer process asks for more than one process may have. It does
// not match verbs.ErrNoResources, because there is room for other processes.
var errPeerLimit = fmt.Errorf("%w: the process of the peer has too much shared memory", verbs.ErrProtocol)

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
