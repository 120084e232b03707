//go:build linux

package soft

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A unixListener is the listening socket of an ID, with the clients that have not
// sent their request yet. Those are strangers: their number and their time are
// limited, and what they do wrong costs them their socket.
type unixListener struct {
	ch         *channel
	id         *id
	fd         int
	accepting  bool
	clients    []*client // the oldest first
	pauseTimer deadline  // after which the gate opens again when descriptors ran out
}

// A client is a connected socket of which no request has come.
type client struct {
	*unixConn
	listener     *unixListener
	requestTimer deadline
}

const (
	// systemBacklog is how many clients the kernel keeps for a listener; it
	// lowers the number to net.core.somaxconn.
	systemBacklog = 4096
	// maxClients is how many clients may be silent at a time.
	maxClients = 64
	// clientTimeout is how long. A client sends its request right after it
	// connected.
	clientTimeout = 5 * time.Second
	// pauseTime is how long a gate rests when descriptors have run out.
	pauseTime = 100 * time.Millisecond
	// acceptBatch bounds how many clients are let in at a time.
	acceptBatch = 64
)

func openUnixListener(i *id, fd int) (*unixListener, error) {
	g := &unixListener{ch: i.ch.Load(), id: i, fd: fd, accepting: true}
	g.pauseTimer.fire = func(time.Time) { g.watchSocket() }
	if err := g.ch.watch(fd, g); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, systemBacklog); err != nil {
		g.ch.unwatch(fd)
		return nil, err
	}
	g.ch.dev.spare.addListener()
	return g, nil
}

// readable admits clients. accept may have closed the spare descriptors, and they are
// opened again here even if no client was waiting: accept(2) fails with EMFILE in
// that case too.
func (l *unixListener) readable() {
	defer l.ch.dev.spare.fill()
	for range acceptBatch {
		if !l.accepting {
			return
		}
		fd, err := l.ch.dev.spare.accept(l.fd)
		if err != nil {
			l.pauseAccepting(err)
			return
		}
		l.acceptClient(fd)
	}
}

// refrain looks away for a while when clients can not be taken although there
// are some: otherwise the channel would stay readable for them.
func (l *unixListener) pauseAccepting(err error) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
		return
	}
	l.ch.unwatch(l.fd)
	l.startPause()
}

func (l *unixListener) startPause() { l.ch.timers.start(&l.pauseTimer, l.ch.clock().Add(pauseTime)) }

// acceptClient makes a client of an accepted socket. If there are too many clients, it
// closes one of them.
func (l *unixListener) acceptClient(fd int) {
	peer, err := peerCredentials(fd)
	if err != nil || !l.ch.dev.users.allows(peer.UID) {
		l.refuseUser(fd)
		return
	}
	claim, cause, ok := l.ch.dev.admit(peer.UID)
	if !ok {
		l.refuseNoResources(fd, cause)
		return
	}
	c := &client{unixConn: &unixConn{ch: l.ch, fd: fd, peer: peer, connected: true, admission: claim}, listener: l}
	c.requestTimer.fire = func(time.Time) { c.refuse() }
	if l.ch.watch(fd, c) != nil {
		c.admission.release()
		l.refuseNoResources(fd, noDescriptorsErr) // epoll has no room for another descriptor
		return
	}
	if len(l.clients) >= maxClients {
		l.ch.dev.local.inc(silentClientErr)
		l.oldestOfBusiest(peer.UID).refuse()
	}
	l.clients = append(l.clients, c)
	l.ch.timers.start(&c.requestTimer, l.ch.clock().Add(clientTimeout))
	c.readable() // the request is mostly there
}

// refuseUser refuses a process of a user who is not allowed, and reads nothing from
// it.
func (l *unixListener) refuseUser(fd int) {
	l.ch.dev.local.inc(rcvdUserErr)
	// Sending fails if the process has left.
	_ = sendPacket(fd, encode(l.userRefusal()), nil)
	_ = unix.Close(fd)
}

// readable reads the request, and makes an ID of it, whose carrier stays.
func (c *client) readable() {
	m, err := c.receive()
	if errors.Is(err, unix.EAGAIN) {
		return
	}
	c.remove()
	if err == nil {
		c.takeRequest(m)
	}
	if c.id == nil {
		c.close()
		return
	}
	c.ch.sources[int32(c.fd)] = c.unixConn
}

// takeRequest creates an ID for a request, or refuses the request.
func (c *client) takeRequest(m message) {
	if err := c.checkSource(m); err != nil {
		c.refuseSource(err)
		return
	}
	if c.hasToWait() {
		_ = c.send(c.listener.id.refusal(cm.RejectNoResources, nil, false)) // sending fails if the client has left
		return
	}
	c.id = c.listener.id.incoming(m, c.unixConn)
}

// hasToWait reports whether the client has to wait because of earlier access errors;
// see accessLimit. A lookup never has to wait, because it leads to no remote access.
func (c *client) hasToWait() bool {
	return c.listener.id.ps == cm.TCP && c.ch.dev.access.refuses(localSource(c.peer.UID, c.peer.PID))
}

func (c *client) refuse() {
	c.remove()
	c.close()
}

func (c *client) remove() {
	c.ch.timers.stop(&c.requestTimer)
	g := c.listener
	g.clients = slices.DeleteFunc(g.clients, func(o *client) bool { return o == c })
}

// admit opens and closes the gate. Who is before a closed one waits there, in
// the kernel's queue or as a client whose time does not run.
func (l *unixListener) setAccepting(yes bool) {
	if yes == l.accepting {
		return
	}
	l.accepting = yes
	if yes {
		l.watch()
	} else {
		l.unwatch()
	}
}

// serves implements gate.
func (l *unixListener) serves() []cm.ServedAddr {
	return []cm.ServedAddr{{Path: PathLocal.String(), Addr: l.id.local}}
}

func (l *unixListener) watch() {
	l.watchSocket()
	for _, c := range slices.Clone(l.clients) {
		if l.ch.watch(c.fd, c) != nil {
			c.refuse()
			continue
		}
		l.ch.timers.start(&c.requestTimer, l.ch.clock().Add(clientTimeout))
	}
}

// watchSocket tries again after a rest where the system can not do it now.
func (l *unixListener) watchSocket() {
	if l.ch.watch(l.fd, l) != nil {
		l.startPause()
	}
}

func (l *unixListener) unwatch() {
	l.ch.timers.stop(&l.pauseTimer)
	l.ch.unwatch(l.fd)
	for _, c := range l.clients {
		l.ch.timers.stop(&c.requestTimer)
		l.ch.unwatch(c.fd)
	}
}

func (l *unixListener) move(to *channel) error {
	l.unwatch()
	l.ch = to
	for _, c := range l.clients {
		c.ch = to
	}
	if l.accepting {
		l.watch()
	}
	return nil
}

// close ends the listening. Clients in the kernel's queue are hung up on, which
// they take for a refusal.
func (l *unixListener) close() {
	l.unwatch()
	l.ch.dev.spare.removeListener()
	for len(l.clients) > 0 {
		l.clients[0].refuse()
	}
}

var _ listener = (*unixListener)(nil)
var _ cmConn = (*unixConn)(nil)
