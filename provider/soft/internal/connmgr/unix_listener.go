//go:build linux

package connmgr

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A unixListener is the listening socket of an ID, with the clients that have not sent
// their request. Any process can connect. So the number of clients is limited, and each
// client has only a limited time for its request.
type unixListener struct {
	ch        *channel
	id        *id
	fd        int  // listening socket, which the Reservation of the ID owns
	accepting bool // false after setAccepting(false)
	// clients that have not sent their request, the oldest first
	clients []*client
	// pauseTimer runs while no clients are accepted after a lack of descriptors.
	pauseTimer timerheap.Timer
}

// A client is an accepted socket on which no request has arrived.
type client struct {
	unixConn
	listener     *unixListener
	requestTimer timerheap.Timer // expires when the request has not arrived in time
}

const (
	// systemBacklog is the backlog of the listening socket, at most net.core.somaxconn
	// (listen(2)).
	systemBacklog = 4096
	// maxClients is the largest number of clients that have not sent a request. Each
	// takes a descriptor. Arbitrary.
	maxClients = 64
	// clientTimeout is the time for a client's request. Clients of this package send it
	// at once. Arbitrary.
	clientTimeout = 5 * time.Second
	// pauseTime is how long no clients are accepted after a lack of descriptors.
	// Arbitrary.
	pauseTime = 100 * time.Millisecond
	// acceptBatch is the largest number of clients that one call of OnReady accepts.
	// Arbitrary.
	acceptBatch = 64
)

func openUnixListener(i *id, fd int) (*unixListener, error) {
	l := &unixListener{ch: i.ch.Load(), id: i, fd: fd, accepting: true}
	l.pauseTimer.Owner = timerheap.Func(func() { l.watchSocket() })
	if err := l.ch.watch(fd, l); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, systemBacklog); err != nil {
		l.ch.epoll.Remove(fd)
		return nil, err
	}
	l.ch.m.Spare.AddListener()
	return l, nil
}

// OnReady implements epollset.Handler. It accepts clients. The spare descriptors may be
// closed for that, so OnReady opens them again at the end.
func (l *unixListener) OnReady(int, uint32) {
	defer l.ch.m.Spare.Fill()
	for range acceptBatch {
		if !l.accepting {
			return
		}
		fd, err := l.ch.m.Spare.Accept(l.fd)
		if err != nil {
			l.pauseAccepting(err)
			return
		}
		l.acceptClient(fd)
	}
}

// pauseAccepting handles an error of accept(2). After an error such as EMFILE the
// listening socket remains readable. So the channel stops watching it, and starts again
// after pauseTime.
func (l *unixListener) pauseAccepting(err error) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
		return
	}
	l.ch.epoll.Remove(l.fd)
	l.startPause()
}

func (l *unixListener) startPause() { l.ch.startTimer(&l.pauseTimer, pauseTime) }

// acceptClient makes a client of an accepted socket. If there are too many clients, it
// closes an older client.
func (l *unixListener) acceptClient(fd int) {
	peer, err := unixsock.PeerCredentials(fd)
	if err != nil || !l.ch.m.Users.Allows(peer.UID) {
		l.refuseUser(fd)
		return
	}
	admitted, cause, ok := l.ch.m.admit(peer.UID)
	if !ok {
		l.refuseNoResources(fd, cause)
		return
	}
	c := &client{unixConn: unixConn{ch: l.ch, fd: fd, peer: peer, connected: true, admission: admitted}, listener: l}
	c.requestTimer.Owner = c
	if l.ch.watch(fd, c) != nil {
		c.admission.release()
		// The channel can not watch any more descriptors.
		l.refuseNoResources(fd, counters.NoDescriptorsErr)
		return
	}
	if len(l.clients) >= maxClients {
		l.ch.m.LocalCounts.Inc(counters.SilentClientErr)
		l.oldestOfBusiest(peer.UID).refuse()
	}
	l.clients = append(l.clients, c)
	l.ch.startTimer(&c.requestTimer, clientTimeout)
	c.OnReady(c.fd, unix.EPOLLIN) // Usually the request has already arrived.
}

// refuseNoResources refuses a client because of a lack of resources, and counts the
// cause. It reads nothing from the client.
func (l *unixListener) refuseNoResources(fd int, cause counters.ID) {
	m := l.ch.m
	m.LocalCounts.Inc(cause)
	refusal := message(&rejMsg{reason: cm.RejectNoResources})
	if l.id.ps == cm.UDP {
		refusal = &sidrRepMsg{status: cm.SIDRNoQP}
	}
	// If Send fails, the client has closed its socket.
	_ = unixsock.Send(fd, encode(refusal), nil)
	_ = unix.Close(fd)
	m.Spare.Fill()
}

// oldestOfBusiest returns the client that is closed when a new client of the user newUID
// arrives. It is the oldest client of the user with the most clients. The new client is
// counted too.
func (l *unixListener) oldestOfBusiest(newUID uint32) *client {
	return access.LeastUsedOfBusiest(slices.Values(l.clients), newUID,
		func(c *client) uint32 { return c.peer.UID }, func(_, _ *client) bool { return false })
}

// refuseUser refuses a process of a user who is not allowed. It reads nothing.
func (l *unixListener) refuseUser(fd int) {
	l.ch.m.LocalCounts.Inc(counters.RcvdUserErr)
	// If Send fails, the process has closed its socket.
	_ = unixsock.Send(fd, encode(l.userRefusal()), nil)
	_ = unix.Close(fd)
}

// userRefusal returns the refusal for a user who is not allowed.
func (l *unixListener) userRefusal() message {
	if l.id.ps == cm.UDP {
		return &sidrRepMsg{status: cm.SIDRReject, userRefused: true}
	}
	return &rejMsg{reason: cm.RejectConsumer, userRefused: true}
}

// OnReady implements epollset.Handler. It reads the request and makes an ID, which then
// owns the unixConn.
func (c *client) OnReady(int, uint32) {
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
	c.ch.epoll.SetHandler(c.fd, &c.unixConn)
}

// takeRequest creates an ID for a request, or refuses the request.
func (c *client) takeRequest(m message) {
	if err := c.checkSource(m); err != nil {
		c.refuseSource(err)
		return
	}
	if c.hasToWait() {
		// If send fails, the client has closed its socket.
		_ = c.send(c.listener.id.refusal(cm.RejectNoResources, nil, false))
		return
	}
	c.id = c.listener.id.incoming(m, &c.unixConn)
}

// hasToWait reports whether the client has to wait after earlier access errors; see
// access.ErrorLimit. A lookup never has to wait.
func (c *client) hasToWait() bool {
	return c.listener.id.ps == cm.TCP && c.ch.m.Errors.Refuses(access.LocalSource(c.peer.UID, c.peer.PID))
}

// OnTimer implements timerheap.Owner. It refuses the client, because no request has
// arrived in time.
func (c *client) OnTimer(*timerheap.Timer) { c.refuse() }

func (c *client) refuse() {
	c.remove()
	c.close()
}

func (c *client) remove() {
	c.ch.timers.Stop(&c.requestTimer)
	l := c.listener
	l.clients = slices.DeleteFunc(l.clients, func(o *client) bool { return o == c })
}

// setAccepting implements listener. While the listener does not accept, the clients
// wait, and their timers are stopped.
func (l *unixListener) setAccepting(accept bool) {
	if accept == l.accepting {
		return
	}
	l.accepting = accept
	if accept {
		l.watch()
	} else {
		l.unwatch()
	}
}

// serves implements listener. It returns the local address of the ID.
func (l *unixListener) serves() []cm.ServedAddr {
	return []cm.ServedAddr{{Path: LocalPath, Addr: l.id.local}}
}

func (l *unixListener) watch() {
	l.watchSocket()
	for _, c := range slices.Clone(l.clients) {
		if l.ch.watch(c.fd, c) != nil {
			c.refuse()
			continue
		}
		l.ch.startTimer(&c.requestTimer, clientTimeout)
	}
}

// watchSocket watches the listening socket. If that fails, it tries again after
// pauseTime.
func (l *unixListener) watchSocket() {
	if l.ch.watch(l.fd, l) != nil {
		l.startPause()
	}
}

func (l *unixListener) unwatch() {
	l.ch.timers.Stop(&l.pauseTimer)
	l.ch.epoll.Remove(l.fd)
	for _, c := range l.clients {
		l.ch.timers.Stop(&c.requestTimer)
		l.ch.epoll.Remove(c.fd)
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

// close implements listener. It refuses the clients that were accepted. The clients in
// the backlog of the socket are refused when the ID closes the socket.
func (l *unixListener) close() {
	l.unwatch()
	l.ch.m.Spare.RemoveListener()
	for len(l.clients) > 0 {
		l.clients[0].refuse()
	}
}

var _ listener = (*unixListener)(nil)
var _ cmConn = (*unixConn)(nil)
