//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
)

// maxEventChannels is the largest number of event channels of a device. Arbitrary.
const maxEventChannels = 1 << 16

// A qpEngine implements connmgr.Engine for a device.
type qpEngine struct{ dev *device }

// AddChannel implements connmgr.Engine. It counts a new event channel.
func (e qpEngine) AddChannel() error {
	return e.dev.add(objEventChannel, "event channels", maxEventChannels)
}

// RemoveChannel implements connmgr.Engine. It undoes AddChannel.
func (e qpEngine) RemoveChannel() { e.dev.remove(objEventChannel) }

// SourceIndex implements connmgr.Engine. It finds the address in the table of GIDs.
func (e qpEngine) SourceIndex(of netip.Addr) (int, error) { return e.dev.gids.index(of) }

// Bind implements connmgr.Engine. If the binding has an End, and the queue pair has a path
// already, Bind first calls rebind of the path.
func (e qpEngine) Bind(qpn uint32, b *connmgr.Binding) error {
	taken := false
	if q := e.dev.qp(qpn); q != nil && b.End != nil {
		var err error
		if taken, err = q.rebind(b); err != nil {
			return err
		}
	}
	e.dev.bindings.add(qpn, b, taken)
	return nil
}

// Unbind implements connmgr.Engine. It removes the binding from the table of the device.
func (e qpEngine) Unbind(qpn uint32, b *connmgr.Binding) { e.dev.bindings.remove(qpn, b) }

// PeerGone implements connmgr.Engine. It calls peerGone of the path.
func (e qpEngine) PeerGone(qpn uint32, b *connmgr.Binding) {
	if q := e.dev.qp(qpn); q != nil && b.End != nil {
		q.peerGone(b.End)
	}
}

// AwaitsNotices implements connmgr.Engine. It calls awaitsNotices of the path.
func (e qpEngine) AwaitsNotices(qpn uint32, b *connmgr.Binding) bool {
	q := e.dev.qp(qpn)
	return q != nil && b.End != nil && q.awaitsNotices(b.End)
}

// qp returns the open queue pair with a number, or nil.
func (d *device) qp(num uint32) *qp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.qps[num]
}

// rebind passes the End of a binding to the local path; see shmConn.rebind. If taken is
// true, the caller no longer owns the End.
func (q *qp) rebind(b *connmgr.Binding) (taken bool, err error) {
	q.shard.enter()
	defer q.shard.leave()
	c := q.shard.localConn(q.num)
	if c == nil {
		return false, nil
	}
	moved, err := c.rebind(&localEnd{End: b.End, peer: b.Peer})
	if moved != nil {
		q.useLocal(moved)
		moved.transmit()
	}
	return true, err
}

// peerGone tells the path that the peer's process has ended unexpectedly. The parameter
// end is the End whose connection to that process has ended. A path that uses another End
// is not told.
func (q *qp) peerGone(end *shm.End) {
	q.shard.enter()
	defer q.shard.leave()
	if c := q.shard.connOver(end, q.num); c != nil {
		c.peerGone()
	}
}

// awaitsNotices returns false if the path does not use the given End.
func (q *qp) awaitsNotices(end *shm.End) bool {
	q.shard.enter()
	defer q.shard.leave()
	c := q.shard.connOver(end, q.num)
	return c != nil && c.awaitsNotices()
}

// Closed implements connmgr.QueuePair. It reports whether Close was called.
func (q *qp) Closed() bool { return q.closed.Load() }

// ReceiveAt implements connmgr.QueuePair. It passes the address to the path of a UD queue
// pair.
func (q *qp) ReceiveAt(at netip.Addr) error {
	q.shard.enter()
	defer q.shard.leave()
	if q.ud == nil {
		return nil
	}
	return q.ud.receiveAt(at)
}

var (
	_ connmgr.Engine    = qpEngine{}
	_ connmgr.QueuePair = (*qp)(nil)
)
