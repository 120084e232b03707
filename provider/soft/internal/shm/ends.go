//go:build linux

package shm

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
)

// An EndKey says which shards share an End.
type EndKey struct {
	Process         // process of the peer
	Other   ShardID // shard of the peer
	Own     uint32  // number of this device's shard
}

// Ends is the table of the ends of a device. With it, all connections between the same
// two shards use the same memory. Any goroutine may call the methods.
//
// A connection begins with a request and a reply. The side that replies chooses the
// memory. It prefers memory that the two shards share already, if the other side has not
// closed it. So the side that has sent a request must not close the ends that the reply
// may choose; see Hold. A process in another PID namespace can not be identified, so
// each connection to it has memory of its own.
type Ends struct {
	geom   Geometry
	maps   *MappingLimit
	guid   uint64        // GUID of the device
	sim    simhost.Host  // simulated host; nil on this host
	random random.Source // source of the numbers of segments

	mu    sync.Mutex
	byKey map[EndKey]*End // ends that a new connection may use
	byID  map[endID]*End
	held  map[holder]int // number of calls of Hold without a call of Unhold
	// shards of the peers with which this device shares memory
	shards peerShards
}

// An endID identifies an end by its segment and its side. This process can have both
// ends of a segment.
type endID struct {
	id   uint64
	side int
}

// A holder is a shard that has sent a request to a process.
type holder struct {
	Process
	own uint32
}

// NewEnds returns an empty table. The parameter geom has the sizes of new segments, guid is
// the GUID of the device, and sim is nil on the real host.
func NewEnds(geom Geometry, maps *MappingLimit, guid uint64, sim simhost.Host) *Ends {
	return &Ends{geom: geom, maps: maps, guid: guid, sim: sim, random: random.From(sim),
		byKey: make(map[EndKey]*End), byID: make(map[endID]*End), held: make(map[holder]int), shards: newPeerShards(maps.counts)}
}

// Choose returns the end for a new connection between two shards, and adds one user to
// it. If there is none that the other side still uses, Choose makes a segment.
func (t *Ends) Choose(key EndKey) (*End, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.use(key); e != nil {
		return e, nil
	}
	if err := t.shards.check(key); err != nil {
		return nil, err
	}
	end, segment, doorbell, err := makeEnd(t.geom, t.maps.For(key.Process))
	if err != nil {
		return nil, err
	}
	end.passed = []int{segment, doorbell}
	simhost.Opened(t.sim, end.Doorbell)
	simhost.Opened(t.sim, doorbell)
	t.add(end, key, t.random.Uint64())
	return end, nil
}

// use returns the end for new connections between two shards, and adds one user to it. It
// returns nil if there is none, or if the other side has closed its end. The caller holds
// the mutex.
func (t *Ends) use(key EndKey) *End {
	e := t.byKey[key]
	if e == nil {
		return nil
	}
	if e.hungUp() || e.left() {
		delete(t.byKey, key)
		return nil
	}
	e.users++
	return e
}

// Open opens a segment that the other side has made, and returns this side's end with
// one user. If the segment is open already, Open adds one user to its end. Open owns the
// descriptors, even after an error. ErrSegment means that the segment is not valid, or
// that the other side has made one for the two shards already, which both sides use.
func (t *Ends) Open(key EndKey, id uint64, segment, doorbell int) (*End, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[endID{id, 0}]; e != nil {
		_, _ = unix.Close(segment), unix.Close(doorbell)
		if e.key != key {
			return nil, fmt.Errorf("%w: its number is in use", ErrSegment)
		}
		e.users++
		return e, nil
	}
	if err := t.mayOpen(key); err != nil {
		_, _ = unix.Close(segment), unix.Close(doorbell)
		return nil, err
	}
	end, err := openEnd(segment, doorbell, t.maps.For(key.Process))
	if err != nil {
		return nil, err
	}
	t.add(end, key, id)
	return end, nil
}

// mayOpen checks whether the other side may make a segment. A correct side uses the one
// that it has made before, unless this side has closed it. The caller holds the mutex.
func (t *Ends) mayOpen(key EndKey) error {
	n := 0
	for _, e := range t.byID {
		if e.key == key && e.Side == 0 && !e.hungUp() && !e.left() {
			n++
		}
	}
	if n >= maxSegments {
		return fmt.Errorf("%w: the two loops have %d already", ErrSegment, n)
	}
	return t.shards.check(key)
}

// maxSegments is how many segments the other side may make for the same two shards. It
// makes another one if this process changes its user between two connections, because it
// then takes it for another process.
const maxSegments = 2

// Find returns the end that the other side has chosen, and adds one user to it. It
// returns nil if there is no such end, or if the end is for other shards. Find does not
// compare the user of the process, because a process can change its user between
// listen(2) and connect(2).
func (t *Ends) Find(key EndKey, id uint64, side int) *End {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[endID{id, side}]
	if e == nil || e.key.PID != key.PID || e.key.Other != key.Other || e.key.Own != key.Own {
		return nil
	}
	e.users++
	return e
}

// UsePair returns both ends of a segment between two shards of this device, and adds one
// user to each end. It makes a segment if there is none.
func (t *Ends) UsePair(own, other uint32) (mine, theirs *End, err error) {
	self := Process{uint32(os.Geteuid()), int32(os.Getpid())}
	key := EndKey{self, ShardID{t.guid, other}, own}
	t.mu.Lock()
	if mine = t.use(key); mine != nil {
		if theirs = t.byID[endID{mine.ID, 1 - mine.Side}]; theirs != nil {
			theirs.users++
			t.mu.Unlock()
			return mine, theirs, nil
		}
		mine.users--
	}
	t.mu.Unlock()
	mine, segment, doorbell, err := makeEnd(t.geom, t.maps.For(self))
	if err != nil {
		return nil, nil, err
	}
	if theirs, err = openEnd(segment, doorbell, t.maps.For(self)); err != nil {
		mine.Close()
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.random.Uint64()
	t.add(theirs, EndKey{self, ShardID{t.guid, own}, other}, id)
	t.add(mine, key, id)
	return mine, theirs, nil
}

// add adds an end with one user. New connections use this end and not an older one with
// the same key. The caller holds the mutex.
func (t *Ends) add(e *End, key EndKey, id uint64) {
	e.ends, e.key, e.ID, e.users = t, key, id, 1
	t.byID[endID{id, e.Side}] = e
	t.shards.add(key)
	if key.PID != 0 {
		t.byKey[key] = e
	}
}

// Forget makes sure that no new connection uses an end. Its present users may keep it.
func (t *Ends) Forget(e *End) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(e)
}

func (t *Ends) forget(e *End) {
	if t.byKey[e.key] == e {
		delete(t.byKey, e.key)
	}
}

// remove removes an end. The caller holds the mutex.
func (t *Ends) remove(e *End) {
	t.forget(e)
	if t.byID[endID{e.ID, e.Side}] == e {
		delete(t.byID, endID{e.ID, e.Side})
	}
	t.shards.remove(e.key)
}

// Drop removes an end without users, and tells the other side that this side no longer
// uses the segment. The shard that polls the end calls Drop, and afterwards closes the
// end. Drop does nothing and returns false if the end has users. If the parameter force
// is false, the same applies to an end that Hold keeps.
func (t *Ends) Drop(e *End, force bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.users > 0 || !force && t.isHeld(e) {
		return false
	}
	t.remove(e)
	own, _ := e.Segment.Carve(e.Side)
	own.Left.Store(1)
	e.HangUp()
	return true
}

// Hold keeps the ends between a shard of this device and a process open until Unhold is
// called. A shard calls it before it sends a request to the process.
func (t *Ends) Hold(other Process, own uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[holder{other, own}]++
}

// Unhold undoes a call of Hold. After the last call it closes ends without users that no
// shard polls.
func (t *Ends) Unhold(other Process, own uint32) {
	var unused []*End
	t.mu.Lock()
	h := holder{other, own}
	if t.held[h]--; t.held[h] == 0 {
		delete(t.held, h)
		for _, e := range t.byID {
			if t.removeUnused(e) {
				unused = append(unused, e)
			}
		}
	}
	t.mu.Unlock()
	slices.SortFunc(unused, (*End).Compare)
	for _, e := range unused {
		e.Close()
	}
}

// removeUnused removes an end that has no users, if no shard polls it and Hold does not
// keep it. The caller holds the mutex, and must close a removed end.
func (t *Ends) removeUnused(e *End) (removed bool) {
	if e.users > 0 || e.adopted || t.isHeld(e) {
		return false
	}
	t.remove(e)
	return true
}

// isHeld reports whether a reply may still choose an end. The caller holds the mutex.
func (t *Ends) isHeld(e *End) bool { return t.held[holder{e.key.Process, e.key.Own}] > 0 }
