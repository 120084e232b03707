//go:build linux

package soft

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A localGate is the listening socket of an ID, with the clients that have not
// sent their request yet. Those are strangers: their number and their time are
// limited, and what they do wrong costs them their socket.
type localGate struct {
	ch      *channel
	id      *id
	fd      int
	open    bool
	clients []*client // the oldest first
	rest    deadline  // after which the gate opens again when descriptors ran out
}

// A client is a connected socket of which no request has come.
type client struct {
	*localCarrier
	gate  *localGate
	limit deadline
}

const (
	// systemBacklog is how many clients the kernel keeps for a listener; it
	// lowers the number to net.core.somaxconn.
	systemBacklog = 4096
	// maxClients is how many clients may be silent at a time.
	maxClients = 64
	// clientLimit is how long. A client sends its request right after it
	// connected.
	clientLimit = 5 * time.Second
	// restTime is how long a gate rests when descriptors have run out.
	restTime = 100 * time.Millisecond
	// acceptBatch bounds how many clients are let in at a time.
	acceptBatch = 64
)

func openLocalGate(i *id, fd int) (*localGate, error) {
	g := &localGate{ch: i.ch.Load(), id: i, fd: fd, open: true}
	g.rest.fire = func(time.Time) { g.watchSocket() }
	if err := g.ch.watch(fd, g); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, systemBacklog); err != nil {
		g.ch.unwatch(fd)
		return nil, err
	}
	g.ch.dev.spare.keep()
	return g, nil
}

// readable admits clients. accept may have closed the spare descriptors, and they are
// opened again here even if no client was waiting: accept(2) fails with EMFILE in
// that case too.
func (g *localGate) readable() {
	defer g.ch.dev.spare.fill()
	for range acceptBatch {
		if !g.open {
			return
		}
		fd, err := g.ch.dev.spare.accept(g.fd)
		if err != nil {
			g.refrain(err)
			return
		}
		g.letIn(fd)
	}
}

// refrain looks away for a while when clients can not be taken although there
// are some: otherwise the channel would stay readable for them.
func (g *localGate) refrain(err error) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
		return
	}
	g.ch.unwatch(g.fd)
	g.takeRest()
}

func (g *localGate) takeRest() { g.ch.timers.start(&g.rest, g.ch.clock().Add(restTime)) }

// letIn makes a client of an accepted socket. If there are too many clients, it
// closes one of them.
func (g *localGate) letIn(fd int) {
	peer, err := peerCredentials(fd)
	if err != nil || !g.ch.dev.users.allows(peer.UID) {
		g.refuseUser(fd)
		return
	}
	claim, cause, ok := g.ch.dev.admit(peer.UID)
	if !ok {
		g.refuseForRoom(fd, cause)
		return
	}
	c := &client{localCarrier: &localCarrier{ch: g.ch, fd: fd, peer: peer, connected: true, claim: claim}, gate: g}
	c.limit.fire = func(time.Time) { c.sendAway() }
	if g.ch.watch(fd, c) != nil {
		c.claim.drop()
		g.refuseForRoom(fd, noDescriptorsErr) // epoll has no room for another descriptor
		return
	}
	if len(g.clients) >= maxClients {
		g.ch.dev.local.inc(silentClientErr)
		g.oldestOfBusiest(peer.UID).sendAway()
	}
	g.clients = append(g.clients, c)
	g.ch.timers.start(&c.limit, g.ch.clock().Add(clientLimit))
	c.readable() // the request is mostly there
}

// refuseUser refuses a process of a user who is not allowed, and reads nothing from
// it.
func (g *localGate) refuseUser(fd int) {
	g.ch.dev.local.inc(rcvdUserErr)
	// Sending fails if the process has left.
	_ = sendPacket(fd, encode(g.userRefusal()), nil)
	_ = unix.Close(fd)
}

// readable reads the request, and makes an ID of it, whose carrier stays.
func (c *client) readable() {
	m, err := c.receive()
	if errors.Is(err, unix.EAGAIN) {
		return
	}
	c.leave()
	if err == nil {
		c.takeRequest(m)
	}
	if c.id == nil {
		c.close()
		return
	}
	c.ch.sources[int32(c.fd)] = c.localCarrier
}

// takeRequest creates an ID for a request, or refuses the request.
func (c *client) takeRequest(m message) {
	if err := c.checkSource(m); err != nil {
		c.refuseSource(err)
		return
	}
	if c.hasToWait() {
		_ = c.send(c.gate.id.refusal(cm.RejectNoResources, nil, false)) // sending fails if the client has left
		return
	}
	c.id = c.gate.id.incoming(m, c.localCarrier)
}

// hasToWait reports whether the client has to wait because of earlier access errors;
// see accessLimit. A lookup never has to wait, because it leads to no remote access.
func (c *client) hasToWait() bool {
	return c.gate.id.ps == cm.TCP && c.ch.dev.access.refuses(localSource(c.peer.UID, c.peer.PID))
}

func (c *client) sendAway() {
	c.leave()
	c.close()
}

func (c *client) leave() {
	c.ch.timers.stop(&c.limit)
	g := c.gate
	g.clients = slices.DeleteFunc(g.clients, func(o *client) bool { return o == c })
}

// admit opens and closes the gate. Who is before a closed one waits there, in
// the kernel's queue or as a client whose time does not run.
func (g *localGate) admit(yes bool) {
	if yes == g.open {
		return
	}
	g.open = yes
	if yes {
		g.watch()
	} else {
		g.unwatch()
	}
}

// serves implements gate.
func (g *localGate) serves() []cm.ServedAddr {
	return []cm.ServedAddr{{Path: PathLocal.String(), Addr: g.id.local}}
}

func (g *localGate) watch() {
	g.watchSocket()
	for _, c := range slices.Clone(g.clients) {
		if g.ch.watch(c.fd, c) != nil {
			c.sendAway()
			continue
		}
		g.ch.timers.start(&c.limit, g.ch.clock().Add(clientLimit))
	}
}

// watchSocket tries again after a rest where the system can not do it now.
func (g *localGate) watchSocket() {
	if g.ch.watch(g.fd, g) != nil {
		g.takeRest()
	}
}

func (g *localGate) unwatch() {
	g.ch.timers.stop(&g.rest)
	g.ch.unwatch(g.fd)
	for _, c := range g.clients {
		g.ch.timers.stop(&c.limit)
		g.ch.unwatch(c.fd)
	}
}

func (g *localGate) move(to *channel) error {
	g.unwatch()
	g.ch = to
	for _, c := range g.clients {
		c.ch = to
	}
	if g.open {
		g.watch()
	}
	return nil
}

// close ends the listening. Clients in the kernel's queue are hung up on, which
// they take for a refusal.
func (g *localGate) close() {
	g.unwatch()
	g.ch.dev.spare.drop()
	for len(g.clients) > 0 {
		g.clients[0].sendAway()
	}
}

var _ gate = (*localGate)(nil)
var _ carrier = (*localCarrier)(nil)
