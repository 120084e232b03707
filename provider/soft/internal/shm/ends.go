//go:build linux

package shm

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
)

// A ShardID identifies a shard within its process.
type ShardID struct {
	Device uint64 // GUID of the device; it is random
	Number uint32 // number of the shard in the device
}

// A Process identifies a process of this host, as SO_PEERCRED reports it; see unix(7).
type Process struct {
	UID uint32
	PID int32 // 0 if the process is in another PID namespace
}

// An EndKey says which shards share an End.
type EndKey struct {
	Process         // process of the other shard
	Other   ShardID // other shard
	Own     uint32  // number of the own shard
}

// Ends is the table of the ends of a device. Connections between the same two shards use
// the same End. Any goroutine may call the methods.
//
// A connection begins with a request and a reply. The side that replies chooses the End.
// If it has an End with the right key, and the other side has not closed that End, it
// takes it. In between, the side that has sent the request must not close its Ends for
// that process: see Hold. A process that is in another PID namespace has no identity, so
// each connection to it has an End of its own.
type Ends struct {
	geom  Geometry
	maps  *MappingLimit
	guid  uint64 // GUID of the device
	mu    sync.Mutex
	byKey map[EndKey]*End // ends that a new connection may use
	byID  map[endID]*End
	held  map[holder]int // number of calls of Hold without a call of Unhold
}

// An endID identifies an end of a segment. If both ends are in one process, they have
// different sides.
type endID struct {
	id   uint64
	side int
}

// A holder is a shard that has sent a request to a process.
type holder struct {
	Process
	own uint32
}

// NewEnds returns an empty table. The parameter geom has the sizes of new segments, and
// guid is the GUID of the device.
func NewEnds(geom Geometry, maps *MappingLimit, guid uint64) *Ends {
	return &Ends{geom: geom, maps: maps, guid: guid,
		byKey: make(map[EndKey]*End), byID: make(map[endID]*End), held: make(map[holder]int)}
}

// Use returns the End with a key, with one more user, or nil.
func (t *Ends) Use(key EndKey) *End {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.use(key)
}

// use is Use. The caller holds the mutex.
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

// Make makes a segment. The End has one user.
func (t *Ends) Make(key EndKey) (*End, error) {
	end, segment, doorbell, err := makeEnd(t.geom, t.maps)
	if err != nil {
		return nil, err
	}
	end.passed = []int{segment, doorbell}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(end, key, random.Uint64())
	return end, nil
}

// Open makes the End of a segment of the other side, with one user. If an earlier call
// has made this End, it gets one more user. Open owns the descriptors, even after an
// error. ErrSegment means that the segment is not valid.
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
	end, err := openEnd(segment, doorbell, t.maps)
	if err != nil {
		return nil, err
	}
	t.add(end, key, id)
	return end, nil
}

// Find returns the End that the other side has chosen, with one more user. It returns
// nil if there is none, or if its key differs. The user is not compared, because a
// process can change its user between listen(2) and connect(2).
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

// UsePair returns both ends of a segment between two shards of the device, each with one
// more user. It makes a segment if there is none.
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
	mine, segment, doorbell, err := makeEnd(t.geom, t.maps)
	if err != nil {
		return nil, nil, err
	}
	if theirs, err = openEnd(segment, doorbell, t.maps); err != nil {
		mine.Close()
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := random.Uint64()
	t.add(theirs, EndKey{self, ShardID{t.guid, own}, other}, id)
	t.add(mine, key, id)
	return mine, theirs, nil
}

// add adds an end with one user. Of several ends with the same key, the last one is used.
// The caller holds the mutex.
func (t *Ends) add(e *End, key EndKey, id uint64) {
	e.ends, e.key, e.ID, e.users = t, key, id, 1
	t.byID[endID{id, e.Side}] = e
	if key.PID != 0 {
		t.byKey[key] = e
	}
}

// Forget keeps new connections from using an end. Present users keep it.
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
}

// Drop removes an end without users, and tells the other side that this side has left.
// The shard that polls the end calls Drop, and then closes the end. Drop returns false if
// the end has users, or if Hold was called and the parameter force is false.
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

// Hold keeps the ends between a shard and a process from being dropped, until Unhold is
// called.
func (t *Ends) Hold(other Process, own uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[holder{other, own}]++
}

// Unhold undoes a call of Hold. It closes the ends that Release has kept.
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
	for _, e := range unused {
		e.Close()
	}
}

// removeUnused removes an end that has no users, is not polled by a shard and not held.
// The caller holds the mutex, and then closes the end.
func (t *Ends) removeUnused(e *End) (removed bool) {
	if e.users > 0 || e.adopted || t.isHeld(e) {
		return false
	}
	t.remove(e)
	return true
}

// isHeld reports whether a REP may choose an end. The caller holds the mutex.
func (t *Ends) isHeld(e *End) bool { return t.held[holder{e.key.Process, e.key.Own}] > 0 }
