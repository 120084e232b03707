//go:build linux

package shm

import (
	"fmt"
	"os"
	"runtime"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A ShardID identifies a shard within its process.
type ShardID struct {
	Device uint64 // GUID of the device
	Number uint32 // number of the shard in the device, less than MaxShards
}

// maxPeerShards is the largest number of shards of one process with which a device shares
// memory. A process states the numbers itself, and each new one costs a segment. Few
// processes have more loops than the host has processors. Arbitrary.
var maxPeerShards = max(256, 2*runtime.NumCPU())

// peerShards has the shards with which a device shares memory, by process. Processes in
// other PID namespaces are not counted, because they can not be told apart, and neither
// is this process.
type peerShards struct {
	own    int32                       // process ID of this process
	of     map[Process]map[ShardID]int // number of ends of each shard
	counts *counters.Set
}

func newPeerShards(counts *counters.Set) peerShards {
	return peerShards{own: int32(os.Getpid()), of: make(map[Process]map[ShardID]int), counts: counts}
}

func (s *peerShards) counted(key EndKey) bool { return key.PID != 0 && key.PID != s.own }

// check returns errPeerLimit if the process of the peer has too many shards already.
func (s *peerShards) check(key EndKey) error {
	shards := s.of[key.Process]
	if !s.counted(key) || shards[key.Other] > 0 || len(shards) < maxPeerShards {
		return nil
	}
	s.counts.Inc(counters.PeerShardsErr)
	return fmt.Errorf("%w: for %d loops", errPeerLimit, len(shards))
}

// add counts an end.
func (s *peerShards) add(key EndKey) {
	if !s.counted(key) {
		return
	}
	shards := s.of[key.Process]
	if shards == nil {
		shards = make(map[ShardID]int)
		s.of[key.Process] = shards
	}
	shards[key.Other]++
}

// remove undoes add.
func (s *peerShards) remove(key EndKey) {
	if !s.counted(key) {
		return
	}
	shards := s.of[key.Process]
	if shards[key.Other]--; shards[key.Other] > 0 {
		return
	}
	if delete(shards, key.Other); len(shards) == 0 {
		delete(s.of, key.Process)
	}
}
