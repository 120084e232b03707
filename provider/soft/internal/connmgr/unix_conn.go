//go:build linux

package connmgr

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A unixConn exchanges the messages of one ID over a Unix socket. A REP comes with the
// descriptors of the shared memory and of the doorbell. The socket is open as long as
// the ID exists.
type unixConn struct {
	ch *channel
	// ID of the connection; nil on the accepting side until the request has arrived
	id *id
	fd int // socket, which the unixConn owns; -1 if there is none

	// The process at the other end; valid after connecting.
	peer      cm.Credentials
	connected bool // true if fd is connected to the peer

	bound boundConn // binding of the local queue pair

	// search for the listener on the connecting side; nil after the search
	dial *localDial

	// Descriptors that have arrived with a REP, or that will be sent with one.
	passed []int

	admission admission // admission of the client on the accepting side
}

// Indices of the two descriptors that come with a REP.
const (
	passedSegment  = iota
	passedDoorbell // doorbell of the connecting side
	passedCount
)

// OnReady implements epollset.Handler. It receives and handles one message.
func (c *unixConn) OnReady(int, uint32) {
	m, err := c.receive()
	switch {
	case errors.Is(err, unix.EAGAIN):
	case errors.Is(err, verbs.ErrNoResources):
		// No descriptors were free for those of the REP, so the queue pair can not be
		// connected.
		c.id.setupFailed(err, &repMsg{})
	case err != nil || !c.id.deliver(m):
		c.stopDelivery()
		c.id.peerGone()
	}
}

// receive receives one message. Only a REP may have descriptors, which are stored for
// attach.
func (c *unixConn) receive() (message, error) {
	maxFDs := 0
	if c.id != nil && c.id.state == stateREQSent && c.id.ps == cm.TCP {
		maxFDs = passedCount
	}
	n, fds, err := unixsock.Receive(c.fd, c.ch.packet[:], maxFDs)
	if err != nil {
		return nil, err
	}
	m, err := decode(c.ch.packet[:n])
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
	return m, nil
}

// checkPassed checks the number and type of a message's descriptors. The shared memory
// is checked later.
func checkPassed(m message, fds []int) error {
	want := 0
	if m.kind() == kindREP {
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

// attach implements cmConn. It binds the queue pair to the shared memory. The accepting
// side makes the memory.
func (c *unixConn) attach(qpn uint32) error {
	end, err := c.end()
	if err != nil {
		return err
	}
	b := &Binding{End: end}
	if c.connected {
		b.Peer = access.LocalSource(c.peer.UID, c.peer.PID)
	}
	return c.bound.bind(c.ch.m.Engine, qpn, b)
}

func (c *unixConn) end() (*shm.End, error) {
	if c.id.active {
		return c.openEnd()
	}
	return c.makeEnd()
}

// openEnd makes this side's end of the shared memory from the descriptors of the REP.
// The shm.End owns them.
func (c *unixConn) openEnd() (*shm.End, error) {
	fds := c.passed
	c.passed = nil
	end, err := shm.OpenEnd(fds[passedSegment], fds[passedDoorbell], c.ch.m.Maps)
	return end, resource.Wrap(err)
}

// makeEnd makes the shared memory and both doorbells. The field passed has the
// descriptors for the peer. If too few descriptors are free, the spare descriptors are
// closed.
func (c *unixConn) makeEnd() (end *shm.End, err error) {
	c.admission.useSpareFD()
	err = c.ch.m.Spare.Retry(func() error {
		end, err = c.newEnd()
		return err
	})
	if resource.NoDescriptors(err) {
		c.ch.m.LocalCounts.Inc(counters.NoDescriptorsErr)
	}
	return end, resource.Wrap(err)
}

func (c *unixConn) newEnd() (*shm.End, error) {
	end, segment, doorbell, err := shm.NewEnd(c.ch.m.Geometry, c.ch.m.Maps)
	if err == nil {
		c.passed = []int{passedSegment: segment, passedDoorbell: doorbell}
	}
	return end, err
}

// send implements cmConn. It sends the descriptors with a REP.
func (c *unixConn) send(m message) error {
	if m.kind() != kindREP {
		return unixsock.Send(c.fd, encode(m), nil)
	}
	defer c.closePassed()
	return unixsock.Send(c.fd, encode(m), c.passed)
}

func (c *unixConn) closePassed() {
	unixsock.CloseAll(c.passed)
	c.passed = nil
}

func (c *unixConn) peerVanished() { c.bound.peerGone(c.ch.m.Engine) }

// usesDatagrams implements cmConn. It returns false.
func (c *unixConn) usesDatagrams() bool { return false }

// credentials implements cmConn. It returns false before the socket is connected.
func (c *unixConn) credentials() (cm.Credentials, bool) { return c.peer, c.connected }

// takeSocket transfers the socket to the caller.
func (c *unixConn) takeSocket() (fd int) {
	fd, c.fd = c.fd, -1
	return fd
}

func (c *unixConn) stopDelivery() {
	if c.dial != nil {
		c.ch.timers.Stop(&c.dial.retryTimer)
	}
	c.ch.epoll.Remove(c.fd)
}

func (c *unixConn) move(to *channel) error {
	if c.ch.epoll.Handler(c.fd) != nil {
		if err := to.watch(c.fd, c); err != nil {
			return err
		}
		c.ch.epoll.Remove(c.fd)
	}
	if c.dial != nil {
		c.ch.timers.Move(&c.dial.retryTimer, &to.timers)
	}
	c.ch = to
	return nil
}

func (c *unixConn) close() {
	c.stopDelivery()
	c.closePassed()
	c.bound.unbind(c.ch.m.Engine)
	if c.fd >= 0 {
		_ = unix.Close(c.takeSocket())
	}
	c.admission.release()
}
