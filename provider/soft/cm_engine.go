//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
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
		if taken, err = e.rebind(q, b); err != nil {
			return err
		}
	}
	e.dev.bindings.add(qpn, b, taken)
	return nil
}

// Unbind implements connmgr.Engine. It removes the binding from the table of the device.
func (e qpEngine) Unbind(qpn uint32, b *connmgr.Binding) { e.dev.bindings.remove(qpn, b) }

// rebind passes the End of a binding to the local path of a queue pair; see
// shmConn.rebind. If taken is true, the caller no longer owns the End.
func (e qpEngine) rebind(q *qp, b *connmgr.Binding) (taken bool, err error) {
	q.shard.enter()
	defer q.shard.leave()
	c := e.dev.waysOf(q.shard).local.conn(q.Num())
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

// PeerGone implements connmgr.Engine. It tells the local path of the queue pair, if the
// path uses the End whose connection to the peer's process has ended.
func (e qpEngine) PeerGone(qpn uint32, b *connmgr.Binding) {
	e.withConn(qpn, b, (*shmConn).peerGone)
}

// AwaitsNotices implements connmgr.Engine. It asks the local path of the queue pair, and
// returns false if the path does not use the End of the binding.
func (e qpEngine) AwaitsNotices(qpn uint32, b *connmgr.Binding) (awaits bool) {
	e.withConn(qpn, b, func(c *shmConn) { awaits = c.awaitsNotices() })
	return awaits
}

// withConn calls the function do for the local path of a queue pair, if the path uses the
// End of the binding.
func (e qpEngine) withConn(qpn uint32, b *connmgr.Binding, do func(*shmConn)) {
	q := e.dev.qp(qpn)
	if q == nil || b.End == nil {
		return
	}
	q.shard.enter()
	defer q.shard.leave()
	if c := e.dev.waysOf(q.shard).local.connOver(b.End, qpn); c != nil {
		do(c)
	}
}

var (
	_ connmgr.Engine    = qpEngine{}
	_ connmgr.QueuePair = (*qp)(nil)
)
