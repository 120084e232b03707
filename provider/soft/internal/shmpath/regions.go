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

func (rs *remoteRegions) init(s *qp.Shard, maps shm.Mapper) {
	rs.maps = maps
	rs.sweeps.Init(s, timerheap.Func(rs.sweep))
}

// find returns the region with a key, or nil.
func (rs *remoteRegions) find(key uint32) *remoteRegion {
	if rs.last == nil || rs.lastKey != key {
		if rs.last = rs.byKey[key]; rs.last == nil {
			return nil
		}
		rs.lastKey = key
	}
	rs.last.used = true
	return rs.last
}

// add adds a region for which the shard is going to ask. It returns false if there are
// too many regions.
func (rs *remoteRegions) add(key uint32) bool {
	if len(rs.byKey) == maxRemoteRegions {
		return false
	}
	if len(rs.byKey) == 0 {
		rs.byKey = make(map[uint32]*remoteRegion)
		rs.sweeps.Start(regionSweepTime)
	}
	rs.byKey[key] = &remoteRegion{used: true}
	rs.asked++
	return true
}

// answered processes the answer of the peer for a region. The parameter fd is the
// region's descriptor, or -1 without one. The function owns the descriptor.
func (rs *remoteRegions) answered(key uint32, fd int) {
	r := rs.byKey[key]
	if r == nil || r.state != regionAsked {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return
	}
	rs.asked--
	r.state = regionRefused
	if fd < 0 {
		return
	}
	memory, err := shm.OpenRegion(fd, key, rs.maps)
	if err == nil {
		r.memory, r.state = memory, regionMapped
	}
}

// sweep forgets regions that are closed, and regions that no request has named since the
// last sweep. It also forgets which regions were refused.
func (rs *remoteRegions) sweep() {
	for key, r := range rs.byKey {
		if !r.used || r.state == regionRefused || r.state == regionMapped && !r.memory.Valid() {
			rs.remove(key, r)
		}
		r.used = false
	}
	if len(rs.byKey) > 0 {
		rs.sweeps.Start(regionSweepTime)
	}
}

func (rs *remoteRegions) remove(key uint32, r *remoteRegion) {
	rs.last = nil
	delete(rs.byKey, key)
	switch r.state {
	case regionAsked:
		rs.asked--
	case regionMapped:
		r.memory.Close()
	}
}

func (rs *remoteRegions) close() {
	rs.sweeps.Stop()
	for key, r := range rs.byKey {
		rs.remove(key, r)
	}
}
