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

// Bind implements connmgr.Engine. If the binding has an End, Bind first calls rebind of
// the queue pair.
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

// PeerGone implements connmgr.Engine. It calls peerGone of the queue pair.
func (e qpEngine) PeerGone(qpn uint32, b *connmgr.Binding) {
	if q := e.dev.qp(qpn); q != nil && b.End != nil {
		q.peerGone(b.End)
	}
}

// AwaitsNotices implements connmgr.Engine. It calls awaitsNotices of the queue pair.
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

// rebind passes the End of a binding to the path; see path.rebind. If taken is true, the
// caller no longer owns the End.
func (q *qp) rebind(b *connmgr.Binding) (taken bool, err error) {
	q.shard.enter()
	defer q.shard.leave()
	if q.path == nil {
		return false, nil
	}
	moved, taken, err := q.path.rebind(&localEnd{End: b.End, peer: b.Peer})
	if moved != nil {
		q.path = moved
		moved.transmit()
	}
	return taken, err
}

// peerGone tells the path that the peer's process has ended unexpectedly.
func (q *qp) peerGone(end *shm.End) {
	q.shard.enter()
	defer q.shard.leave()
	if q.path != nil {
		q.path.peerGone(end)
	}
}

func (q *qp) awaitsNotices(end *shm.End) bool {
	q.shard.enter()
	defer q.shard.leave()
	return q.path != nil && q.path.awaitsNotices(end)
}

// Closed implements connmgr.QueuePair. It reports whether Close was called.
func (q *qp) Closed() bool { return q.closed.Load() }

// ReceiveAt implements connmgr.QueuePair. It passes the address to the path.
func (q *qp) ReceiveAt(at netip.Addr) error {
	q.shard.enter()
	defer q.shard.leave()
	if q.path == nil {
		return nil
	}
	return q.path.receiveAt(at)
}

var (
	_ connmgr.Engine    = qpEngine{}
	_ connmgr.QueuePair = (*qp)(nil)
)
