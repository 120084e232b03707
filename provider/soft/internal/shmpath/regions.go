//go:build linux

package shmpath

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

const (
	// maxRemoteRegions is how many regions of another shard a shard can know. Each
	// region may take a mapping of the process. Arbitrary.
	maxRemoteRegions = 256
	// regionSweepTime is how often unused and closed regions are forgotten. Arbitrary.
	regionSweepTime = 10 * time.Second
)

// regionState says whether a shard can access a memory region of another process.
type regionState uint8

const (
	// regionAsked: the shard has asked for the region with a slot shm.Share, and the
	// answer has not arrived. A region begins in this state.
	regionAsked regionState = iota
	// regionMapped: the region is mapped. The answer had a descriptor.
	regionMapped
	// regionRefused: the region can not be mapped. The shard does not ask again before
	// the next sweep.
	regionRefused
)

// A remoteRegion is a memory region of another process.
type remoteRegion struct {
	state  regionState
	memory *shm.RemoteRegion // memory of the region if it is mapped, and else nil
	used   bool              // true if a request has named the region since the last sweep
}

// remoteRegions has the memory regions of the process at the other end of a peer.
// Before use, init must be called.
type remoteRegions struct {
	byKey map[uint32]*remoteRegion
	asked int // number of regions in the state regionAsked
	// result of the last search, which was for lastKey; nil if nothing was found
	last    *remoteRegion
	lastKey uint32
	maps    shm.Mapper // maps memory of that process
	sweeps  qp.Timer   // timer for sweep(); runs while there are regions
}

func (t *remoteRegions) init(s *qp.Shard, maps shm.Mapper) {
	t.maps = maps
	t.sweeps.Init(s, timerheap.Func(t.sweep))
}

// find returns the region with a key, or nil.
func (t *remoteRegions) find(key uint32) *remoteRegion {
	if t.last == nil || t.lastKey != key {
		if t.last = t.byKey[key]; t.last == nil {
			return nil
		}
		t.lastKey = key
	}
	t.last.used = true
	return t.last
}

// add adds a region for which the shard is going to ask. It returns false if there are
// too many regions.
func (t *remoteRegions) add(key uint32) bool {
	if len(t.byKey) == maxRemoteRegions {
		return false
	}
	if len(t.byKey) == 0 {
		t.byKey = make(map[uint32]*remoteRegion)
		t.sweeps.Start(regionSweepTime)
	}
	t.byKey[key] = &remoteRegion{used: true}
	t.asked++
	return true
}

// answered processes the answer of the peer for a region. The parameter fd is the
// region's descriptor, or -1 without one. The function owns the descriptor.
func (t *remoteRegions) answered(key uint32, fd int) {
	r := t.byKey[key]
	if r == nil || r.state != regionAsked {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return
	}
	t.asked--
	r.state = regionRefused
	if fd < 0 {
		return
	}
	memory, err := shm.OpenRegion(fd, key, t.maps)
	if err == nil {
		r.memory, r.state = memory, regionMapped
	}
}

// sweep forgets regions that are closed, and regions that no request has named since the
// last sweep. It also forgets which regions were refused.
func (t *remoteRegions) sweep() {
	for key, r := range t.byKey {
		if !r.used || r.state == regionRefused || r.state == regionMapped && !r.memory.Valid() {
			t.remove(key, r)
		}
		r.used = false
	}
	if len(t.byKey) > 0 {
		t.sweeps.Start(regionSweepTime)
	}
}

func (t *remoteRegions) remove(key uint32, r *remoteRegion) {
	t.last = nil
	delete(t.byKey, key)
	switch r.state {
	case regionAsked:
		t.asked--
	case regionMapped:
		r.memory.Close()
	}
}

func (t *remoteRegions) close() {
	t.sweeps.Stop()
	for key, r := range t.byKey {
		t.remove(key, r)
	}
}
