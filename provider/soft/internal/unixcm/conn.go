//go:build linux

package unixcm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A conn exchanges the messages of one ID over a Unix socket. Two descriptors come
// with a REP that names new shared memory: one of the memory and one of the doorbell. The
// socket stays open as long as the ID exists.
type conn struct {
	t  *Transport
	ch *connmgr.Channel
	// ID of the connection; nil on the passive side until the request has arrived
	id *connmgr.ID
	fd int // socket, which the conn owns; -1 if there is none

	peer    cm.Credentials  // credentials of the peer's process; zero before fd is connected
	binding connmgr.Binding // binding of the local queue pair, set by Attach

	// state of the search for the listener; nil on the passive side, and when the search
	// has ended
	dialing *dial

	// Descriptors that have arrived with a REP, or that will be sent with a REP.
	passed []int
	// description of the shared memory in the peer's REQ or REP
	peerShared connmgr.SharedMemory
	chosen     *shm.End // shared memory that this side has chosen for its REP, or nil
	// ownShard is the shard of the queue pair that this side's REQ names. It is valid while
	// holds is true; see hold.
	ownShard uint32
	holds    bool

	admission admission // admission of the peer; the zero value on the active side
	exchange  Exchange  // used only for Config.Observe
}

// Indices of the descriptors that come with a REP.
const (
	passedSegment  = iota
	passedDoorbell // doorbell of the side that receives the REP
	passedCount
)

// OnReady implements fdevent.Handler. It receives and handles one message.
func (c *conn) OnReady(int, uint32) {
	m, err := c.receive()
	var version *versionError
	switch {
	case errors.Is(err, unix.EAGAIN):
	case errors.As(err, &version) && c.id.State() == connmgr.StateREQSent:
		c.StopDelivery()
		c.id.Refused(err)
	case errors.Is(err, verbs.ErrNoResources):
		// The REP came with descriptors, but this process has no free descriptors to receive
		// them. So the queue pair can not be connected.
		c.id.SetupFailed(err)
	case err != nil || !c.id.Deliver(m):
		c.StopDelivery()
		c.id.PeerGone()
	}
}

// receive receives one message. Only a REP may come with descriptors. They are stored in
// c.passed.
func (c *conn) receive() (connmgr.Message, error) {
	maxFDs := 0
	if c.id != nil && c.id.State() == connmgr.StateREQSent && c.id.PortSpace() == cm.TCP {
		maxFDs = passedCount
	}
	// The buffer is one byte longer than the longest valid message, so that longer packets
	// are detected.
	var packet [maxMessage + 1]byte
	n, fds, err := unixsock.Receive(c.fd, packet[:], maxFDs)
	for _, fd := range fds {
		c.t.Host.Opened(fd)
	}
	if err != nil {
		return nil, err
	}
	m, err := decode(packet[:n])
	if err == nil {
		err = checkPassed(m, fds)
	}
	if err != nil {
		unixsock.CloseAll(fds)
		return nil, err
	}
	if len(fds) > 0 {
		c.passed = fds
	}
	c.observe(m, false)
	switch m := m.(type) {
	case *connmgr.REQ:
		c.peerShared = m.Shared
	case *connmgr.REP:
		c.peerShared = m.Shared
	}
	return m, nil
}

// checkPassed checks the number of descriptors that came with a message. The second
// descriptor of a REP must be a doorbell. The first one is checked when the shared
// memory is opened.
func checkPassed(m connmgr.Message, fds []int) error {
	want := 0
	if rep, ok := m.(*connmgr.REP); ok && rep.Shared.Passed {
		want = passedCount
	}
	if len(fds) != want {
		return fmt.Errorf("%w: message with %d descriptors instead of %d", verbs.ErrProtocol, len(fds), want)
	}
	if want > 0 && !shm.IsDoorbell(fds[passedDoorbell]) {
		return fmt.Errorf("%w: message with a descriptor that is not a doorbell", verbs.ErrProtocol)
	}
	return nil
}

// Attach implements connmgr.Conn. The binding has the end of the shared memory, which the
// passive side chooses.
func (c *conn) Attach(qpn uint32) (*connmgr.Binding, error) {
	var end *shm.End
	var err error
	if c.id.Active() {
		end, err = c.chosenByPeer(qpn)
		c.unhold()
	} else {
		end, err = c.choose(qpn)
	}
	if err != nil {
		return nil, err
	}
	c.binding = connmgr.Binding{End: end, Peer: access.LocalSource(c.peer.UID, c.peer.PID)}
	return &c.binding, nil
}

// key returns the key of this side's end of the memory shared with the peer. The
// parameter qpn is the number of the local queue pair.
func (c *conn) key(qpn uint32) shm.EndKey {
	return shm.EndKey{Process: c.process(), Other: c.peerShared.Shard, Own: c.t.shardOf(qpn)}
}

func (c *conn) process() shm.Process {
	return shm.Process{UID: c.peer.UID, PID: int32(c.peer.PID)}
}

// chosenByPeer returns this side's end of the shared memory that the peer's REP names.
func (c *conn) chosenByPeer(qpn uint32) (*shm.End, error) {
	chosen := &c.peerShared
	if chosen.Passed {
		fds := c.passed
		c.passed = nil
		end, err := c.t.Ends.Open(c.key(qpn), chosen.Segment, fds[passedSegment], fds[passedDoorbell])
		return end, resource.Wrap(err)
	}
	end := c.t.Ends.Find(c.key(qpn), chosen.Segment, int(1-chosen.Side))
	if end == nil {
		return nil, fmt.Errorf("%w: REP with an unknown segment", verbs.ErrProtocol)
	}
	return end, nil
}

// choose returns this side's end of the memory for a connection. It uses memory that the
// two shards share, or makes new memory. If the peer may not have opened this memory,
// choose stores descriptors of it in c.passed. If the process has too few free
// descriptors, choose closes the spare ones.
func (c *conn) choose(qpn uint32) (end *shm.End, err error) {
	c.admission.useSpare()
	ends := c.t.Ends
	err = c.t.Spare.Retry(func() error {
		if end, err = ends.Choose(c.key(qpn)); err != nil {
			return err
		}
		if c.passed, err = end.Pass(); err != nil {
			end.Release()
		}
		return err
	})
	if resource.NoDescriptors(err) {
		c.t.Counts.Limit(counters.NoDescriptorsErr)
	}
	if err != nil {
		return nil, resource.Wrap(err)
	}
	c.chosen = end
	return end, nil
}

// Send implements connmgr.Conn. It writes the chosen segment into a REP, and sends the
// descriptors in c.passed with it.
func (c *conn) Send(m connmgr.Message) error {
	var packet [maxMessage]byte
	var fds []int
	if rep, ok := m.(*connmgr.REP); ok {
		rep.Shared = connmgr.SharedMemory{Shard: c.t.shardID(rep.QPN), Segment: c.chosen.ID, Side: uint8(c.chosen.Side), Passed: len(c.passed) > 0}
		fds = c.passed
		defer c.closePassed()
	}
	err := unixsock.Send(c.fd, encodeTo(packet[:], m), fds)
	if err == nil {
		c.observe(m, true)
	}
	return err
}

// observe passes a message to Config.Observe, if there is one.
func (c *conn) observe(m connmgr.Message, sent bool) {
	if c.t.Observe == nil {
		return
	}
	x := &c.exchange
	switch m := m.(type) {
	case *connmgr.REQ:
		x.Endpoints, x.ActiveQPN = m.Endpoints, m.QPN
	case *connmgr.SIDRREQ:
		x.Endpoints = m.Endpoints
	case *connmgr.REP:
		x.PassiveQPN = m.QPN
	}
	if x.Src.IsValid() {
		c.t.Observe(x, m, sent)
	}
}

// hold is called before the REQ is sent. The peer's REP may choose any memory that this
// side shares with the peer's process, so hold keeps all of it open until unhold is
// called.
func (c *conn) hold(request connmgr.Message) {
	if m, ok := request.(*connmgr.REQ); ok {
		m.Shared.Shard = c.t.shardID(m.QPN)
		c.ownShard, c.holds = c.t.shardOf(m.QPN), true
		c.t.Ends.Hold(c.process(), c.ownShard)
	}
}

func (c *conn) unhold() {
	if c.holds {
		c.holds = false
		c.t.Ends.Unhold(c.process(), c.ownShard)
	}
}

func (c *conn) closePassed() {
	unixsock.CloseAll(c.passed)
	c.passed = nil
}

// Path implements connmgr.Conn.
func (c *conn) Path() string { return connmgr.LocalPath }

// takeSocket makes the caller the owner of the socket.
func (c *conn) takeSocket() (fd int) {
	fd, c.fd = c.fd, -1
	return fd
}

func (c *conn) StopDelivery() {
	if c.dialing != nil {
		c.ch.StopTimer(&c.dialing.retryTimer)
	}
	c.ch.Unwatch(c.fd)
}

func (c *conn) Move(to *connmgr.Channel) error {
	if c.ch.Watches(c.fd) {
		if err := to.Watch(c.fd, c); err != nil {
			return err
		}
		c.ch.Unwatch(c.fd)
	}
	if c.dialing != nil {
		c.ch.MoveTimer(&c.dialing.retryTimer, to)
	}
	c.ch = to
	return nil
}

func (c *conn) Close() {
	c.StopDelivery()
	c.closePassed()
	c.unhold()
	if c.fd >= 0 {
		_ = unix.Close(c.takeSocket())
	}
	c.admission.release()
}
