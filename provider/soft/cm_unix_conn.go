//go:build linux

package soft

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A unixConn carries the messages of one ID over a Unix socket. The reply
// brings two descriptors along: the shared segment, and the connecting side's
// bell. The socket stays open as long as the ID:
// the kernel hangs it up when the peer dies.
type unixConn struct {
	ch *channel
	id *id // nil while the request is awaited
	fd int // socket, owned by the carrier; -1 if there is none

	// peer is the process at the other end; it is valid once the socket is connected.
	peer      cm.Credentials
	connected bool

	// The end offered to a queue pair, if any, and its number.
	offered *shmEnd
	qpn     uint32

	// the search for the listener, on the connecting side; nil once it has ended
	dial *localDial

	// The descriptors that go, or came, with the reply.
	passed []int

	admission admission // claim of the client, on the accepting side
}

// Descriptors in the order in which they are passed.
const (
	passedSegment  = iota
	passedDoorbell // of the connecting side
	passedCount
)

// readable reads one message.
func (c *unixConn) readable() {
	m, err := c.receive()
	switch {
	case errors.Is(err, unix.EAGAIN):
	case errors.Is(err, verbs.ErrNoResources):
		c.id.setupFailed(err, &repMsg{}) // the reply's descriptors could not be received
	case err != nil || !c.id.deliver(m):
		c.stopDelivery()
		c.id.peerGone()
	}
}

// receive takes one message off the socket. Only a reply may bring descriptors,
// and only to the side that asked; they are kept for attach.
func (c *unixConn) receive() (message, error) {
	room := 0
	if c.id != nil && c.id.state == stateREQSent && c.id.ps == cm.TCP {
		room = passedCount
	}
	n, fds, err := recvPacket(c.fd, c.ch.packet[:], room)
	if err != nil {
		return nil, err
	}
	m, err := decode(c.ch.packet[:n])
	if err == nil {
		err = checkPassed(m, fds)
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	if len(fds) > 0 {
		c.passed = fds
	}
	return m, nil
}

// checkPassed reports whether the descriptors are those that the message has to
// bring. The segment is checked when it is opened.
func checkPassed(m message, fds []int) error {
	want := 0
	if m.kind() == kindREP {
		want = passedCount
	}
	if len(fds) != want {
		return fmt.Errorf("%w: message with %d descriptors", verbs.ErrProtocol, len(fds))
	}
	if want > 0 && !isDoorbell(fds[passedDoorbell]) {
		return fmt.Errorf("%w: not a doorbell", verbs.ErrProtocol)
	}
	return nil
}

// attach offers the shared memory to the queue pair: what came with the reply,
// or on the accepting side what will go with it.
func (c *unixConn) attach(qpn uint32) error {
	end, err := c.end()
	if err != nil {
		return err
	}
	if c.connected {
		end.peer = localSource(c.peer.UID, c.peer.PID)
	}
	c.qpn, c.offered = qpn, end
	return c.ch.dev.offerEnd(qpn, end)
}

func (c *unixConn) end() (*shmEnd, error) {
	if c.id.active {
		return c.openEnd()
	}
	return c.makeEnd()
}

// openEnd makes an end of the descriptors that came, and gives them away.
func (c *unixConn) openEnd() (*shmEnd, error) {
	fds := c.passed
	c.passed = nil
	seg, err := openSegment(fds[passedSegment], c.ch.dev.maps)
	if err != nil {
		closeAll(fds[passedDoorbell:])
		return nil, resource.Wrap(err)
	}
	seg.closeFD()
	return &shmEnd{seg: seg, side: 0, doorbell: fds[passedDoorbell]}, nil
}

// makeEnd makes the shared memory and both doorbells, and keeps the peer's
// descriptors in passed until the reply is sent. The client's claim has reserved room
// for them.
func (c *unixConn) makeEnd() (end *shmEnd, err error) {
	c.admission.useSpareFD()
	err = c.ch.dev.spare.retry(func() error {
		end, err = c.newEnd()
		return err
	})
	if resource.NoDescriptors(err) {
		c.ch.dev.local.inc(noDescriptorsErr)
	}
	return end, resource.Wrap(err)
}

func (c *unixConn) newEnd() (*shmEnd, error) {
	seg, err := newSegment(&c.ch.dev.cfg, c.ch.dev.maps)
	if err != nil {
		return nil, err
	}
	mine, peers, err := newDoorbells()
	if err != nil {
		seg.close()
		return nil, err
	}
	c.passed = []int{passedSegment: seg.takeFD(), passedDoorbell: peers}
	return &shmEnd{seg: seg, side: 1, doorbell: mine}, nil
}

// send sends a message, and with a reply the descriptors.
func (c *unixConn) send(m message) error {
	if m.kind() != kindREP {
		return sendPacket(c.fd, encode(m), nil)
	}
	defer c.closePassed()
	return sendPacket(c.fd, encode(m), c.passed)
}

func (c *unixConn) closePassed() {
	closeAll(c.passed)
	c.passed = nil
}

func (c *unixConn) peerVanished() { c.ch.dev.peerGone(c.qpn, c.offered) }

// credentials implements carrier.
func (c *unixConn) credentials() (cm.Credentials, bool) { return c.peer, c.connected }

// take transfers the socket to the caller.
func (c *unixConn) takeSocket() (fd int) {
	fd, c.fd = c.fd, -1
	return fd
}

func (c *unixConn) stopDelivery() {
	if c.dial != nil {
		c.ch.timers.stop(&c.dial.retryTimer)
	}
	c.ch.unwatch(c.fd)
}

func (c *unixConn) move(to *channel) error {
	if c.ch.sources[int32(c.fd)] != nil {
		if err := to.watch(c.fd, c); err != nil {
			return err
		}
		c.ch.unwatch(c.fd)
	}
	if c.dial != nil {
		c.ch.timers.move(&c.dial.retryTimer, &to.timers)
	}
	c.ch = to
	return nil
}

func (c *unixConn) close() {
	c.stopDelivery()
	c.closePassed()
	if c.offered != nil {
		c.ch.dev.withdrawEnd(c.qpn, c.offered)
	}
	if c.fd >= 0 {
		_ = unix.Close(c.takeSocket())
	}
	c.admission.release()
}
