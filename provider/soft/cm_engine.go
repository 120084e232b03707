//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shmpath"
)

// maxEventChannels is the largest number of event channels of a device. Arbitrary.
const maxEventChannels = 1 << 16

// A cmEngine implements connmgr.Engine for a device.
type cmEngine struct{ dev *device }

// AddChannel implements connmgr.Engine. It counts a new event channel.
func (e cmEngine) AddChannel() error {
	return e.dev.Add(qp.ObjEventChannel, "event channels", maxEventChannels)
}

// RemoveChannel implements connmgr.Engine. It undoes AddChannel.
func (e cmEngine) RemoveChannel() { e.dev.Remove(qp.ObjEventChannel) }

// SourceIndex implements connmgr.Engine. It finds the address in the table of GIDs.
func (e cmEngine) SourceIndex(of netip.Addr) (int, error) { return e.dev.gids.index(of) }

// Bind implements connmgr.Engine. If the binding has an End, and the queue pair has a path
// already, Bind first calls Rebind of the path.
func (e cmEngine) Bind(qpn uint32, b *connmgr.Binding) error {
	taken := false
	if q := e.dev.QP(qpn); q != nil && b.End != nil {
		var err error
		if taken, err = e.rebind(q, b); err != nil {
			return err
		}
	}
	e.dev.bindings.add(qpn, b, taken)
	return nil
}

// Unbind implements connmgr.Engine. It removes the binding from the table of the device.
func (e cmEngine) Unbind(qpn uint32, b *connmgr.Binding) { e.dev.bindings.remove(qpn, b) }

// rebind passes the End of a binding to the local path of a queue pair; see
// shmpath.Conn.Rebind. If taken is true, the caller no longer owns the End.
func (e cmEngine) rebind(q *qp.QP, b *connmgr.Binding) (taken bool, err error) {
	q.Shard.Enter()
	defer q.Shard.Leave()
	c := e.dev.waysOf(q.Shard).local.Conn(q.Num())
	if c == nil {
		return false, nil
	}
	moved, err := c.Rebind(&shmpath.End{End: b.End, Source: b.Peer})
	if moved != nil {
		q.UseLocal(moved)
		moved.Transmit()
	}
	return true, err
}

// PeerGone implements connmgr.Engine. It tells the local path of the queue pair, if the
// path uses the End whose connection to the peer's process has ended.
func (e cmEngine) PeerGone(qpn uint32, b *connmgr.Binding) {
	e.withConn(qpn, b, (*shmpath.Conn).PeerGone)
}

// AwaitsNotices implements connmgr.Engine. It asks the local path of the queue pair, and
// returns false if the path does not use the End of the binding.
func (e cmEngine) AwaitsNotices(qpn uint32, b *connmgr.Binding) (awaits bool) {
	e.withConn(qpn, b, func(c *shmpath.Conn) { awaits = c.AwaitsNotices() })
	return awaits
}

// withConn calls the function do for the local path of a queue pair, if the path uses the
// End of the binding.
func (e cmEngine) withConn(qpn uint32, b *connmgr.Binding, do func(*shmpath.Conn)) {
	q := e.dev.QP(qpn)
	if q == nil || b.End == nil {
		return
	}
	q.Shard.Enter()
	defer q.Shard.Leave()
	if c := e.dev.waysOf(q.Shard).local.ConnOver(b.End, qpn); c != nil {
		do(c)
	}
}

var (
	_ connmgr.Engine    = cmEngine{}
	_ connmgr.QueuePair = (*qp.QP)(nil)
)
