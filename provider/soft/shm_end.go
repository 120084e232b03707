//go:build linux

package soft

import "golang.org/x/sys/unix"

// A shmEnd is one end of a connection on the local path: what the rendezvous
// hands to the queue pair.
type shmEnd struct {
	seg      *segment
	side     int // 0 for the connecting side, 1 for the accepting one
	doorbell int // see bell.go; watched by the shard
	peer     accessSource
	// makeshift marks an end that the queue pair made itself, for want of an
	// offer; its counterpart waits for the peer.
	provisional bool
}

// release gives up what the end owns.
func (e *shmEnd) release() {
	e.seg.close()
	_ = unix.Close(e.doorbell)
}

// offerEnd leaves an end for a queue pair, which takes it when it goes to RTR,
// and owns it from then on. One that is there already, because the application
// drives it itself, takes it at once.
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

// offered reports whether connection management has an end for a queue pair.
func (d *device) hasOfferedEnd(qpn uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends[endKey{own: qpn}] != nil
}

// adopt moves a connected queue pair to the end that connection management has
// for it. When its peer has already joined it by another, that one stays.
func (q *qp) adoptEnd(end *shmEnd) (taken bool, err error) {
	q.shard.enter()
	defer q.shard.leave()
	l, ok := q.path.(*shmConn)
	if !ok {
		return false, nil
	}
	if !l.end.provisional || !q.dev.dropEnd(q.num, q.attr.DestQPN) {
		end.release()
		return true, nil
	}
	moved, err := newSHMConn(q, end)
	if err != nil {
		end.release()
		return true, err
	}
	l.detach()
	q.path = moved
	q.resetSent()
	moved.transmit()
	return true, nil
}

// takeEnd finds the end for a queue pair that goes to RTR. Without an offer the
// peer is one of this device's, connected without connection management: the
// first of the two makes the segment, and offers its other end.
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
		return nil, noResources(err)
	}
	if old := d.ends[endKey{peer, own}]; old != nil {
		old.release()
	}
	d.ends[endKey{peer, own}] = theirs
	mine.provisional = true
	return mine, nil
}

// newEndPair makes both ends of a connection within this process.
func newEndPair(cfg *Config, maps *mappingLimit) (accepting, connecting *shmEnd, err error) {
	seg, err := newSegment(cfg, maps)
	if err != nil {
		return nil, nil, err
	}
	other, err := openSegment(seg.takeFD(), maps)
	if err != nil {
		seg.close()
		return nil, nil, err
	}
	other.closeFD()
	mine, peers, err := newDoorbells()
	if err != nil {
		seg.close()
		other.close()
		return nil, nil, err
	}
	return &shmEnd{seg: seg, side: 1, doorbell: mine}, &shmEnd{seg: other, side: 0, doorbell: peers}, nil
}

// dropEnd takes back the end that a queue pair has offered its peer, and reports
// whether it was still there.
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

// withdrawEnd forgets an end that was offered for a queue pair, if it was not
// taken.
func (d *device) withdrawEnd(qpn uint32, end *shmEnd) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := endKey{own: qpn}
	if d.ends[key] == end {
		delete(d.ends, key)
		end.release()
	}
}

// peerGone tells a queue pair that its peer's process went away without a word,
// if it still has that end: the number may be another's by now.
func (d *device) peerGone(qpn uint32, end *shmEnd) {
	d.mu.Lock()
	q := d.qps[qpn]
	d.mu.Unlock()
	if q == nil {
		return
	}
	q.shard.enter()
	defer q.shard.leave()
	if l, ok := q.path.(*shmConn); ok && l.end == end {
		l.onHangUp()
	}
}
