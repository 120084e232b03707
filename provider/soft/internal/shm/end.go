//go:build linux

package shm

import (
	"cmp"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/simhost"
)

// An End is one side of the memory that two shards share. All connections between the
// two shards use the same memory. An End counts its users.
type End struct {
	Segment  *Segment
	Side     int    // 1 for the side that has made the segment, 0 for the other one
	Doorbell int    // this side's descriptor of the doorbell
	ID       uint64 // random number of the segment, the same on both sides

	ends *Ends // table that has the end
	key  EndKey
	// The mutex of the field ends guards users, adopted and passed. users is the number
	// of bindings and connections. adopted is true if a shard polls the end. passed has
	// the descriptors for the other side until Confirm is called; see Pass.
	users   int
	adopted bool
	passed  []int
}

// makeEnd makes a segment with a doorbell for each side. The caller owns all results,
// and passes the two descriptors to openEnd of the other side.
func makeEnd(geom Geometry, maps Mapper) (end *End, segment, doorbell int, err error) {
	seg, err := newSegment(geom, maps)
	if err != nil {
		return nil, -1, -1, err
	}
	own, peers, err := newDoorbells()
	if err != nil {
		seg.Close()
		return nil, -1, -1, err
	}
	return &End{Segment: seg, Side: 1, Doorbell: own}, seg.takeFD(), peers, nil
}

// openEnd makes the second End of a segment from the descriptors that makeEnd has
// returned. It owns the descriptors, even after an error. ErrSegment means that the
// segment is not valid.
func openEnd(segment, doorbell int, maps Mapper) (*End, error) {
	seg, err := openSegment(segment, maps)
	if err != nil {
		_ = unix.Close(doorbell)
		return nil, err
	}
	seg.closeFD()
	return &End{Segment: seg, Side: 0, Doorbell: doorbell}, nil
}

// Compare orders ends by their segments and sides.
func (e *End) Compare(o *End) int {
	return cmp.Or(cmp.Compare(e.ID, o.ID), cmp.Compare(e.Side, o.Side))
}

// Peer returns the process at the other side.
func (e *End) Peer() Process { return e.key.Process }

// hungUp reports whether the other side has closed its doorbell.
func (e *End) hungUp() bool {
	fds := []unix.PollFd{{Fd: int32(e.Doorbell), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

// left reports whether the other side does not use the segment any more.
func (e *End) left() bool {
	other, _ := e.Segment.Carve(1 - e.Side)
	return other.Left.Load() != 0
}

// HangUp shuts the doorbell down. The other side sees the doorbell as closed.
func (e *End) HangUp() { _ = unix.Shutdown(e.Doorbell, unix.SHUT_RDWR) }

// Close unmaps the memory and closes the doorbell. Only the shard that polls the end
// calls it, after Ends.Drop or when the device is closed.
func (e *End) Close() {
	e.Segment.Close()
	_ = unix.Close(e.Doorbell)
	e.closePassed()
}

func (e *End) closePassed() {
	closeAll(e.passed)
	e.passed = nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// Pass returns copies of the descriptors of the segment and of the doorbell for the
// other side. The caller owns them, and sends them with a REP. After Confirm, Pass
// returns none.
//
// The other side may read the REPs of several connections in any order. So every REP
// before Confirm comes with descriptors.
func (e *End) Pass() (fds []int, err error) {
	e.ends.mu.Lock()
	defer e.ends.mu.Unlock()
	for _, fd := range e.passed {
		duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, simhost.Opened(e.ends.sim, duplicate))
	}
	return fds, nil
}

// Confirm records that the other side has the segment.
func (e *End) Confirm() {
	e.ends.mu.Lock()
	defer e.ends.mu.Unlock()
	e.closePassed()
}

// Release removes one user. It closes an end without users, unless a shard polls the end
// or Ends.Hold keeps it.
func (e *End) Release() {
	t := e.ends
	t.mu.Lock()
	e.users--
	unused := t.removeUnused(e)
	t.mu.Unlock()
	if unused {
		e.Close()
	}
}

// Adopt records that a shard polls the end.
func (e *End) Adopt() {
	e.ends.mu.Lock()
	defer e.ends.mu.Unlock()
	e.adopted = true
}
