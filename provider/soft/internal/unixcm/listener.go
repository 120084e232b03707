//go:build linux

package unixcm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A listener is the listening socket of an ID, together with the clients that have
// not sent their request. Any process can connect. Therefore the number of clients is
// limited, and so is the time that each client has for its request.
type listener struct {
	t         *Transport
	ch        *connmgr.Channel
	id        *connmgr.ID
	fd        int  // listening socket, owned by the Reservation of the ID
	accepting bool // false while requests have to wait; see SetAccepting
	// clients that have not sent their request, the oldest first
	clients []*client
	// userRefusals limits the messages that tell a process that its user is not allowed.
	userRefusals access.Rate
	// pauseTimer runs while the listener accepts no clients because descriptors were lacking.
	pauseTimer timerheap.Timer
}

// A client is an accepted socket whose request has not arrived.
type client struct {
	conn
	listener     *listener
	requestTimer timerheap.Timer // timer that ends the wait for the request
}

const (
	// systemBacklog is the backlog of the listening socket. The kernel lowers it to
	// net.core.somaxconn (listen(2)).
	systemBacklog = 4096
	// maxClients is the largest number of clients that have not sent a request. Each of them
	// uses a descriptor. The number is arbitrary.
	maxClients = 64
	// clientTimeout is the longest wait for a client's request. Clients of this package send
	// it at once. The number is arbitrary.
	clientTimeout = 5 * time.Second
	// pauseTime is the time for which a listener accepts no clients after an error of
	// accept(2), such as a lack of descriptors. Arbitrary.
	pauseTime = 100 * time.Millisecond
	// acceptBatch is the largest number of clients that one call of OnReady accepts. The
	// number is arbitrary.
	acceptBatch = 64
	// foreignBatch is the largest number of processes that one call of OnReady refuses in
	// addition, because of their user. It is larger than acceptBatch, because they take
	// little time, and clients wait behind them in the backlog. Arbitrary.
	foreignBatch = 256
	// userRefusalsPerSecond is the largest number of messages about a user who is not
	// allowed, in one second and in a burst. A message takes more than a third of the time
	// of a refusal. Arbitrary.
	userRefusalsPerSecond = 64
)

func openListener(t *Transport, i *connmgr.ID) (*listener, error) {
	fd := i.Reservation().FD
	l := &listener{t: t, ch: i.Channel(), id: i, fd: fd, accepting: true}
	l.pauseTimer.Owner = timerheap.Func(func() { l.watchSocket() })
	if err := l.ch.Watch(fd, l); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, systemBacklog); err != nil {
		l.ch.Unwatch(fd)
		return nil, err
	}
	l.t.Spare.AddListener()
	return l, nil
}

// OnReady implements fdevent.Handler. It accepts clients. Spare descriptors that were
// closed to accept a client are opened again at the end.
//
// A process whose user is not allowed is refused before anything is allocated for it, and
// does not take the place of a client. Otherwise the clients in the backlog would wait
// for a turn of the loop for every acceptBatch such processes.
func (l *listener) OnReady(int, uint32) {
	defer l.t.Spare.Fill()
	for clients, foreign := 0, 0; clients < acceptBatch && foreign < foreignBatch && l.accepting; {
		fd, err := l.t.Spare.Accept(l.fd)
		if err != nil {
			l.pauseAccepting(err)
			return
		}
		l.t.Host.Opened(fd)
		peer, err := unixsock.PeerCredentials(fd)
		if err != nil || !l.t.Users.Allows(peer.UID) {
			foreign++
			l.refuseUser(fd)
			continue
		}
		clients++
		l.acceptClient(fd, peer)
	}
}

// pauseAccepting handles an error of accept(2). After an error such as EMFILE, the
// listening socket stays readable. The channel therefore does not watch it for pauseTime.
func (l *listener) pauseAccepting(err error) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
		return
	}
	l.ch.Unwatch(l.fd)
	l.startPause()
}

func (l *listener) startPause() { l.ch.StartTimer(&l.pauseTimer, pauseTime) }

// acceptClient makes a client of the accepted socket fd, or refuses it. If there are too
// many clients, it closes one of the others.
func (l *listener) acceptClient(fd int, peer cm.Credentials) {
	admitted, cause, ok := l.t.admit(peer.UID)
	if !ok {
		l.refuseNoResources(fd, cause)
		return
	}
	c := &client{conn: conn{t: l.t, ch: l.ch, fd: fd, peer: peer, admission: admitted}, listener: l}
	c.requestTimer.Owner = c
	if l.ch.Watch(fd, c) != nil {
		c.admission.release()
		// The channel can not watch any more descriptors.
		l.refuseNoResources(fd, counters.NoDescriptorsErr)
		return
	}
	if len(l.clients) >= maxClients {
		l.t.Counts.Inc(counters.SilentClientErr)
		l.oldestOfBusiest(peer.UID).refuse()
	}
	l.clients = append(l.clients, c)
	l.ch.StartTimer(&c.requestTimer, clientTimeout)
	c.OnReady(c.fd, unix.EPOLLIN) // Usually the request has already arrived.
}

// refuseNoResources refuses a client with the reason RejectNoResources, without reading
// its request. It adds 1 to the counter in the parameter cause.
func (l *listener) refuseNoResources(fd int, cause counters.ID) {
	l.t.Counts.Limit(cause)
	refusal := connmgr.Message(&connmgr.REJ{Reason: cm.RejectNoResources})
	if l.id.PortSpace() == cm.UDP {
		refusal = &connmgr.SIDRREP{Status: cm.SIDRNoQP}
	}
	// An error means that the client has closed its socket.
	_ = unixsock.Send(fd, encode(refusal), nil)
	_ = unix.Close(fd)
	l.t.Spare.Fill()
}

// oldestOfBusiest returns the client to close when a client of the user newUID needs
// room. It is the oldest client of the user with most clients. The new client counts
// too.
func (l *listener) oldestOfBusiest(newUID uint32) *client {
	return access.LeastUsedOfBusiest(slices.Values(l.clients), newUID,
		func(c *client) uint32 { return c.peer.UID }, func(_, _ *client) bool { return false })
}

// refuseUser refuses a process whose user is not allowed. It does not read the request.
// The process gets a message with the reason, unless there are too many of them.
func (l *listener) refuseUser(fd int) {
	l.t.Counts.Inc(counters.RcvdUserErr)
	if now := int64(l.ch.Now()); l.userRefusals.Allows(now, userRefusalsPerSecond) {
		l.userRefusals.Use(now, userRefusalsPerSecond)
		// An error means that the process has closed its socket.
		_ = unixsock.Send(fd, encode(l.userRefusal()), nil)
	}
	_ = unix.Close(fd)
}

func (l *listener) userRefusal() connmgr.Message {
	if l.id.PortSpace() == cm.UDP {
		return &connmgr.SIDRREP{Status: cm.SIDRReject, UserRefused: true}
	}
	return &connmgr.REJ{Reason: cm.RejectConsumer, UserRefused: true}
}

// OnReady implements fdevent.Handler. It receives the request and makes an ID for it.
// The ID then owns the conn.
func (c *client) OnReady(int, uint32) {
	m, err := c.receive()
	if errors.Is(err, unix.EAGAIN) {
		return
	}
	c.remove()
	var version *versionError
	switch {
	case err == nil:
		c.takeRequest(m)
	case errors.As(err, &version):
		// The client does not understand the reason, but it finds out the version. An error
		// means that it has closed its socket.
		_ = c.Send(c.listener.id.Refusal(cm.RejectConsumer))
	}
	if c.id == nil {
		c.Close()
		return
	}
	c.ch.ReplaceHandler(c.fd, &c.conn)
}

// takeRequest makes an ID for the request m, or refuses the request.
func (c *client) takeRequest(m connmgr.Message) {
	if err := c.checkSource(m); err != nil {
		c.refuseSource(err)
		return
	}
	if c.hasToWait() {
		// An error means that the client has closed its socket.
		_ = c.Send(c.listener.id.Refusal(cm.RejectNoResources))
		return
	}
	if c.id = c.listener.id.Incoming(m, &c.conn); c.id != nil {
		c.id.SetPeer(c.peer)
	}
}

// hasToWait reports whether the client may not connect now because of its earlier access
// errors; see access.ErrorLimit. SIDR requests are not limited.
func (c *client) hasToWait() bool {
	return c.listener.id.PortSpace() == cm.TCP && c.t.Errors.Refuses(access.LocalSource(c.peer.UID, c.peer.PID))
}

// OnTimer implements timerheap.Owner. It closes the client, because the request has not
// arrived in time.
func (c *client) OnTimer(*timerheap.Timer) { c.refuse() }

func (c *client) refuse() {
	c.remove()
	c.Close()
}

func (c *client) remove() {
	c.ch.StopTimer(&c.requestTimer)
	l := c.listener
	l.clients = slices.DeleteFunc(l.clients, func(o *client) bool { return o == c })
}

// SetAccepting implements connmgr.Listener. While the listener does not accept, clients
// wait and do not time out.
func (l *listener) SetAccepting(accept bool) {
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

// Serves implements connmgr.Listener. It returns the local address of the ID.
func (l *listener) Serves() []cm.ServedAddr {
	return []cm.ServedAddr{{Path: connmgr.LocalPath, Addr: l.id.Endpoints().Src}}
}

func (l *listener) watch() {
	l.watchSocket()
	for _, c := range slices.Clone(l.clients) {
		if l.ch.Watch(c.fd, c) != nil {
			c.refuse()
			continue
		}
		l.ch.StartTimer(&c.requestTimer, clientTimeout)
	}
}

// watchSocket makes the channel watch the listening socket. If that fails, it is tried
// again after pauseTime.
func (l *listener) watchSocket() {
	if l.ch.Watch(l.fd, l) != nil {
		l.startPause()
	}
}

func (l *listener) unwatch() {
	l.ch.StopTimer(&l.pauseTimer)
	l.ch.Unwatch(l.fd)
	for _, c := range l.clients {
		l.ch.StopTimer(&c.requestTimer)
		l.ch.Unwatch(c.fd)
	}
}

func (l *listener) Move(to *connmgr.Channel) error {
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

// Close implements connmgr.Listener. It closes the clients that were accepted. The
// clients in the backlog of the socket are refused when the ID closes the socket.
func (l *listener) Close() {
	l.unwatch()
	l.t.Spare.RemoveListener()
	for len(l.clients) > 0 {
		l.clients[0].refuse()
	}
}

var _ connmgr.Listener = (*listener)(nil)
var _ connmgr.Conn = (*conn)(nil)

// The client chooses the addresses in a request. checkSource compares them with the
// client's socket:
//
//   - Both addresses must belong to this host.
//   - The socket must have the name that reserves the source port, either for the source
//     address or for a wildcard. Only one open socket can have this name.
//   - With REUSEADDR, sockets with different names can share a port. A socket that begins
//     to listen stops sharing its port, but the other sockets stay bound to the port. If
//     the client's socket shares its port, a socket that does not share this port must
//     listen, and must belong to the client's user.
//
// One process can have the name for an address, and another process the name for a
// wildcard with the same port. The client's credentials show which of them has sent the
// request.

// addresses returns the source and destination address of a request. If m is not a
// request, addresses returns false.
func addresses(m connmgr.Message) (connmgr.Endpoints, bool) {
	switch m := m.(type) {
	case *connmgr.REQ:
		return m.Endpoints, true
	case *connmgr.SIDRREQ:
		return m.Endpoints, true
	}
	return connmgr.Endpoints{}, false
}

// checkSource checks the addresses of a request against the client's socket. If an
// address is wrong, the error matches verbs.ErrProtocol. Any other error means that the
// check was not possible.
func (c *client) checkSource(m connmgr.Message) error {
	e, ok := addresses(m)
	if !ok {
		return nil
	}
	for _, a := range []netip.Addr{e.Src.Addr(), e.Dst.Addr()} {
		own, err := c.ch.IsLocalAddr(a)
		switch {
		case err != nil:
			return err
		case !own:
			return fmt.Errorf("%w: request from %v to %v, which are not both of this host", verbs.ErrProtocol, e.Src, e.Dst)
		}
	}
	name, _ := unixsock.PeerName(c.fd)
	s, ok := c.t.Host.ParseBindAddr(c.listener.id.PortSpace(), name)
	if !ok || !s.Covers(e.Src) {
		return fmt.Errorf("%w: request with the source address %v from the socket %q", verbs.ErrProtocol, e.Src, name)
	}
	if s.Shared == 0 {
		return nil
	}
	held, err := heldByOthers(c.t.Host.Targets(c.listener.id.PortSpace(), e.Src), c.peer.UID)
	switch {
	case err != nil:
		return fmt.Errorf("the holder of %v is not known: %w", e.Src, err)
	case held:
		return fmt.Errorf("%w: request with the source address %v, which another process holds", verbs.ErrProtocol, e.Src)
	}
	return nil
}

// heldByOthers reports whether a socket is bound to one of the addresses without sharing
// it. Listeners of the given user do not count.
//
// heldByOthers returns an error if no descriptor is free, or if a listener has a full
// backlog (EAGAIN).
func heldByOthers(addrs [hostport.MaxTargets]hostport.BindAddr, user uint32) (bool, error) {
	for _, s := range addrs {
		peer, err := unixsock.Listener(s.Name())
		held := err == nil && peer.UID != user
		switch {
		// A bound socket that does not listen may have this name.
		case errors.Is(err, unix.ECONNREFUSED):
			held, err = unixsock.IsBound(s.Name())
		// A security module has refused the connection. The user of the listener is therefore
		// unknown, and may be another user.
		case isNoListener(err):
			held, err = true, nil
		}
		if held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// refuseSource refuses a request after checkSource has returned the error err. If the
// check was not possible, the reason of the refusal is cm.RejectNoResources.
func (c *client) refuseSource(err error) {
	cause, reason := counters.RcvdAddressErr, cm.RejectInvalidGID
	if resource.NoDescriptors(err) {
		cause = counters.NoDescriptorsErr
	}
	if !errors.Is(err, verbs.ErrProtocol) {
		reason = cm.RejectNoResources
	}
	if cause == counters.NoDescriptorsErr {
		c.t.Counts.Limit(cause)
	} else {
		c.t.Counts.Inc(cause)
	}
	// If Send fails, the client has closed its socket.
	_ = c.Send(c.listener.id.Refusal(reason))
}
