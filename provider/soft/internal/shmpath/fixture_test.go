//go:build linux

package shmpath

import (
	"cmp"
	"testing"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A memoryConfig configures a device whose RC queue pairs use shared memory. A field that
// is zero has the default value.
type memoryConfig struct {
	vectors int              // number of completion vectors; default: 2
	bytes   int              // size of a ring's payload area; default: 256 KiB
	slots   int              // number of slots of a ring; default: 256
	private bool             // true if all regions are private
	regions *shm.RegionLimit // limit of the regions that peers can map
}

// A memoryTable has the local paths of a device, and the Ends that its queue pairs offer
// each other. Only the goroutine of the test uses it.
type memoryTable struct {
	ends   *shm.Ends
	shards uint32
	peers  map[*qp.Shard]*Peers
	// Ends that were offered and not taken yet
	offered map[offer]*shm.End
}

// An offer has the numbers of two queue pairs: the maker has offered an End to the taker.
type offer struct{ taker, maker uint32 }

func newMemoryDevice(t testing.TB, cfg memoryConfig) *qptest.Device {
	cfg.vectors = cmp.Or(cfg.vectors, 2)
	maps := shm.NewMappingLimit(shm.MaxMappings(), shm.CountMappings, shm.ByteLimits{}, new(counters.Set))
	geometry := shm.Geometry{Slots: uint32(cmp.Or(cfg.slots, 256)), Bytes: uint32(cmp.Or(cfg.bytes, 256<<10))}
	table := &memoryTable{
		ends: shm.NewEnds(geometry, maps, 0, nil), shards: qp.ShardsOf(cfg.vectors),
		peers: make(map[*qp.Shard]*Peers), offered: make(map[offer]*shm.End),
	}
	regions := cfg.regions
	if regions == nil && !cfg.private {
		regions = shm.NewRegionLimit(1000)
	}
	shared := &Config{
		Ends: table.ends, Maps: maps, Withdraw: table.withdraw,
		SharesWith: func(uint32) bool { return !cfg.private },
	}
	return qptest.NewDevice(t, cfg.vectors, qptest.Paths{
		OnShard: func(s *qp.Shard) { table.peers[s] = NewPeers(s, shared) },
		OnConnect: func(q *qp.QP, attr *verbs.QPAttr) error {
			end, err := table.take(q.Num(), attr.DestQPN)
			if err != nil {
				return err
			}
			c, err := New(table.peers[q.Shard], q, &End{End: end}, attr.DestQPN)
			if err != nil {
				end.Release()
				return err
			}
			q.UseLocal(c)
			return nil
		},
		Regions: regions, Extra: table,
	}, table.close)
}

// take returns an End for a queue pair. It is the one that the peer has offered. If there
// is none, take makes two Ends, and offers the other one to the peer.
func (m *memoryTable) take(own, peer uint32) (*shm.End, error) {
	if end := m.offered[offer{own, peer}]; end != nil {
		delete(m.offered, offer{own, peer})
		return end, nil
	}
	ownEnd, peerEnd, err := m.ends.UsePair(own%m.shards, peer%m.shards)
	if err == nil {
		m.withdraw(own, peer)
		m.offered[offer{peer, own}] = peerEnd
	}
	return ownEnd, err
}

// withdraw releases the End that a queue pair has offered to its peer; see Config.
func (m *memoryTable) withdraw(own, peer uint32) bool {
	end := m.offered[offer{peer, own}]
	if end == nil {
		return false
	}
	delete(m.offered, offer{peer, own})
	end.Release()
	return true
}

func (m *memoryTable) close() {
	for _, end := range m.offered {
		end.Release()
	}
	for _, p := range m.peers {
		p.Close()
	}
}

// newLocalPair makes two connected ends. Each has its own shard.
func newLocalPair(t testing.TB, cfg memoryConfig) (a, b *qptest.End) {
	return qptest.NewPair(t, newMemoryDevice(t, cfg), verbs.ProgressManual)
}

// peersOf returns the shared memory of an end's shard.
func peersOf(e *qptest.End) *Peers {
	return e.PD.Device().(*qptest.Device).Extra.(*memoryTable).peers[e.QP.Shard]
}

// connOf returns the path of an end, or nil if there is none.
func connOf(e *qptest.End) *Conn { return peersOf(e).Conn(e.QP.Num()) }

// newNeighbors makes a second pair of connected ends on the shards of the first pair.
func newNeighbors(t testing.TB, x, y *qptest.End) (a, b *qptest.End) {
	// There are two shards for each vector; see qp.ShardsOf.
	d := x.PD.Device()
	a, b = qptest.NewEnd(t, d, int(x.QP.Shard.Slot/2), verbs.ProgressManual), qptest.NewEnd(t, d, int(y.QP.Shard.Slot/2), verbs.ProgressManual)
	a.Connect(b, nil)
	b.Connect(a, nil)
	qptest.BecomeReady(a, b)
	return a, b
}
