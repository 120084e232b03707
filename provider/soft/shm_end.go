//go:build linux

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// A shmEnd has the resources of one end of a connection on the local path. Connection
// management makes it and offers it to the queue pair; see offerEnd.
type shmEnd struct {
	seg      *shm.Segment
	side     int // 0 for the connecting side, 1 for the accepting side
	doorbell int // descriptor of this side's doorbell; see shm.NewDoorbells
	// source to which the access errors of the peer are counted; zero value if the peer
	// is this process
	peer access.Source
	// provisional is true if takeEnd made the end because none had been offered. The
	// other end is then offered to the peer in device.ends.
	provisional bool
}

// release closes the doorbell and unmaps the memory.
func (e *shmEnd) release() {
	e.seg.Close()
	_ = unix.Close(e.doorbell)
}

// offerEnd offers an end to the queue pair with a number. The queue pair takes the end
// when it enters RTR, and owns it from then on. A queue pair that the application has
// moved to RTR itself takes the end at once.
func (d *device) offerEnd(qpn uint32, end *shmEnd) error {
	d.mu.Lock()
	q := d.qps[qpn]
	d.mu.Unlock()
	if q != nil {
		if taken, err := q.adoptEnd(end); taken || err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := endKey{own: qpn}
	if old := d.ends[key]; old != nil {
		old.release()
	}
	d.ends[key] = end
	return nil
}

// hasOfferedEnd reports whether connection management has offered an end for a queue pair
// that was not yet taken.
func (d *device) hasOfferedEnd(qpn uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends[endKey{own: qpn}] != nil
}

// adoptEnd moves a queue pair with a provisional end to the end that connection
// management offers. If the peer has already taken the other provisional end, the queue
// pair is not moved. taken reports whether the queue pair now owns end, or has released
// it.
func (q *qp) adoptEnd(end *shmEnd) (taken bool, err error) {
	q.shard.enter()
	defer q.shard.leave()
	c, ok := q.path.(*shmConn)
	if !ok {
		return false, nil
	}
	if !c.end.provisional || !q.dev.dropEnd(q.num, q.attr.DestQPN) {
		end.release()
		return true, nil
	}
	moved, err := newSHMConn(q, end)
	if err != nil {
		end.release()
		return true, err
	}
	c.detach()
	q.path = moved
	q.resetSent()
	moved.transmit()
	return true, nil
}

// takeEnd returns the end for a queue pair that enters RTR. If connection management has
// not offered one, the peer is a queue pair of the same device, and the application
// connects both queue pairs itself. The first of the two makes both ends, and offers one
// to the other.
func (d *device) takeEnd(own, peer uint32) (*shmEnd, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range []endKey{{own, 0}, {own, peer}} {
		if end := d.ends[key]; end != nil {
			delete(d.ends, key)
			return end, nil
		}
	}
	mine, theirs, err := newEndPair(&d.cfg, d.maps)
	if err != nil {
		return nil, resource.Wrap(err)
	}
	if old := d.ends[endKey{peer, own}]; old != nil {
		old.release()
	}
	d.ends[endKey{peer, own}] = theirs
	mine.provisional = true
	return mine, nil
}

// newEndPair makes both ends of a connection between two queue pairs of this process.
func newEndPair(cfg *Config, maps *shm.MappingLimit) (accepting, connecting *shmEnd, err error) {
	seg, err := shm.NewSegment(cfg.geometry(), maps)
	if err != nil {
		return nil, nil, err
	}
	other, err := shm.OpenSegment(seg.TakeFD(), maps)
	if err != nil {
		seg.Close()
		return nil, nil, err
	}
	other.CloseFD()
	mine, peers, err := shm.NewDoorbells()
	if err != nil {
		seg.Close()
		other.Close()
		return nil, nil, err
	}
	return &shmEnd{seg: seg, side: 1, doorbell: mine}, &shmEnd{seg: other, side: 0, doorbell: peers}, nil
}

// dropEnd withdraws and releases the end that a queue pair has offered to its peer. It
// returns false if no end is offered, or if the peer has taken the end.
func (d *device) dropEnd(own, peer uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	end := d.ends[endKey{peer, own}]
	if end == nil {
		return false
	}
	delete(d.ends, endKey{peer, own})
	end.release()
	return true
}

// withdrawEnd releases an end that was offered to a queue pair, unless it was taken.
func (d *device) withdrawEnd(qpn uint32, end *shmEnd) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := endKey{own: qpn}
	if d.ends[key] == end {
		delete(d.ends, key)
		end.release()
	}
}

// peerGone is called when the peer's process has ended without closing the connection.
// It does nothing if the number now belongs to another queue pair, which has another
// end.
func (d *device) peerGone(qpn uint32, end *shmEnd) {
	d.mu.Lock()
	q := d.qps[qpn]
	d.mu.Unlock()
	if q == nil {
		return
	}
	q.shard.enter()
	defer q.shard.leave()
	if c, ok := q.path.(*shmConn); ok && c.end == end {
		c.onHangUp()
	}
}
