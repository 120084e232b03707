//go:build linux

package soft

import (
	"errors"
	"maps"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

const (
	// maxDatagramSources bounds the connections that one queue pair accepts. A further
	// connection replaces the connection that evictionCandidate returns. The sender of
	// the replaced connection connects again when it has a datagram to send. The number
	// is arbitrary.
	maxDatagramSources = 1024
	// datagramBudget is how many datagrams of one connection, and how many new
	// connections, are handled before other descriptors are handled. It is arbitrary.
	datagramBudget = 64
	// acceptRetry is how long a queue pair waits before it tries again to accept
	// connections for which it had no descriptors. It is arbitrary.
	acceptRetry = 100 * time.Millisecond
)

// A udLocalSource is an accepted Unix socket connection from another UD queue pair of
// this host. The user of the peer's process may send to this device; other users'
// connections are not accepted. A udLocalSource belongs to the shard.
type udLocalSource struct {
	local   *udLocal
	fd      int    // descriptor of the connection; -1 after close
	uid     uint32 // user at the other end
	lastUse uint64 // value of udLocal.uses at the last use
}

// OnReady accepts connections when the listening socket is ready. If no descriptor is
// free, accept closes spare descriptors to get a free one; see
// unixsock.SpareDescriptors. Before OnReady returns, it tries to open these spare
// descriptors again.
func (u *udLocal) OnReady(int, uint32) {
	defer u.q.dev.spare.Fill()
	for range datagramBudget {
		if !u.accept() {
			return
		}
	}
}

// accept accepts one connection, and reports whether more connections may be waiting.
func (u *udLocal) accept() bool {
	fd, err := u.q.dev.spare.Accept(u.listener)
	if err == nil {
		u.admit(fd)
		return true
	}
	if resource.NoDescriptors(err) {
		// The connection stays in the backlog, and the listening socket stays readable.
		// If epoll watched this socket, the owner could not sleep. So the socket is not
		// watched until the timer fires.
		u.q.shard.epoll.Remove(u.listener)
		u.acceptTimer.start(acceptRetry)
	}
	return false
}

// acceptAgain is called when acceptTimer fires. It makes epoll watch the listening
// socket again.
func (u *udLocal) acceptAgain() {
	if u.q.shard.epoll.Add(u.listener, unix.EPOLLIN, u) != nil {
		u.acceptTimer.start(acceptRetry)
	}
}

// admit adds a new connection if its user is allowed, and reads its datagrams. If there
// is no room for the connection, admit reads the datagrams that the peer has already
// sent, and then closes the connection.
func (u *udLocal) admit(fd int) {
	peer, err := unixsock.PeerCredentials(fd)
	if err != nil || !u.q.dev.users.Allows(peer.UID) {
		u.q.shard.counts.Inc(counters.DatagramUserRefused)
		_ = unix.Close(fd)
		u.q.dev.spare.Fill()
		return
	}
	src := &udLocalSource{local: u, fd: fd, uid: peer.UID, lastUse: u.uses}
	if cause, ok := src.enter(); !ok {
		u.q.shard.counts.Inc(cause)
		src.finish()
		return
	}
	src.OnReady(fd, unix.EPOLLIN)
}

// enter adds an accepted connection to the map of connections of the queue pair. If the
// user has as many connections as allowed, enter first closes another connection of that
// user. If the queue pair or the process has no room, enter closes the connection that
// evictionCandidate returns. If there is still no room, enter returns false, and the
// counter in which the caller counts the refused connection.
func (src *udLocalSource) enter() (refused counters.ID, ok bool) {
	p, conns := src.local, src.local.q.dev.connLimit
	if !conns.Acquire(src.uid) && !(p.closeLeastRecentlyUsed(src.uid) && conns.Acquire(src.uid)) {
		return counters.UserLimitErr, false
	}
	if len(p.sources) >= maxDatagramSources {
		p.evictionCandidate(src.uid).finish()
	}
	if !p.fillSpare(src.uid) || p.q.shard.epoll.Add(src.fd, unix.EPOLLIN, src) != nil {
		conns.Release(src.uid)
		return counters.NoDescriptorsErr, false
	}
	p.sources[src.fd] = src
	return 0, true
}

// fillSpare is called after a connection of the user newUser was accepted. To accept the
// connection, spare descriptors may have been closed; fillSpare opens them again. If no
// descriptor is free, it closes connections of the queue pair; see evictionCandidate. It
// closes at most as many connections as there are spare descriptors. Without this bound
// it could close all: other goroutines may take each descriptor that becomes free. It
// returns false if not all spare descriptors could be opened.
func (u *udLocal) fillSpare(newUser uint32) bool {
	for range unixsock.SpareCount {
		if u.q.dev.spare.Fill() {
			return true
		}
		src := u.evictionCandidate(newUser)
		if src == nil {
			return false
		}
		src.finish()
	}
	return u.q.dev.spare.Fill()
}

// closeLeastRecentlyUsed closes one of the connections of a user: the connection that
// was idle for the longest time. It returns false if the user has no connection to the
// queue pair.
func (u *udLocal) closeLeastRecentlyUsed(uid uint32) bool {
	var idlest *udLocalSource
	for _, src := range u.sources {
		if src.uid == uid && (idlest == nil || src.lastUse < idlest.lastUse) {
			idlest = src
		}
	}
	if idlest != nil {
		idlest.finish()
	}
	return idlest != nil
}

// evictionCandidate returns the connection to close for a new connection of a user: see
// access.LeastUsedOfBusiest. Of the connections of one user, the one that was idle for
// the longest time is closed first. It returns nil if there is no connection.
func (u *udLocal) evictionCandidate(newUser uint32) *udLocalSource {
	return access.LeastUsedOfBusiest(maps.Values(u.sources), newUser,
		func(src *udLocalSource) uint32 { return src.uid },
		func(a, b *udLocalSource) bool { return a.lastUse < b.lastUse })
}

// OnReady reads the datagrams that have arrived.
func (src *udLocalSource) OnReady(int, uint32) {
	for range datagramBudget {
		if !src.readOne() {
			return
		}
	}
}

// readOne reads one datagram, and reports whether more datagrams may have arrived. It
// closes the connection if the peer has closed it, or has sent an invalid packet. A read
// of 0 bytes means that the peer has closed the connection or has sent an empty packet.
// An empty packet is invalid, so readOne need not tell these two cases apart.
func (src *udLocalSource) readOne() bool {
	p := src.local
	n, err := unix.Read(src.fd, p.in)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case errors.Is(err, unix.ECONNRESET):
		// The system reports this error only once. After that, the datagrams that the
		// peer has sent can still be read.
		return true
	case err != nil || n == 0 || !p.receive(p.in[:n]):
		src.close()
		return false
	}
	p.uses++
	src.lastUse = p.uses
	return true
}

// finish reads the datagrams that the peer has sent, and closes the connection. It first
// shuts the connection down for reading, so that the peer can not send more.
func (src *udLocalSource) finish() {
	_ = unix.Shutdown(src.fd, unix.SHUT_RD)
	for src.readOne() {
	}
	src.close()
}

// close closes the connection, and removes it from the queue pair if enter has added it.
func (src *udLocalSource) close() {
	if src.fd < 0 {
		return
	}
	if p := src.local; p.sources[src.fd] == src {
		delete(p.sources, src.fd)
		p.q.shard.epoll.Remove(src.fd)
		p.q.dev.connLimit.Release(src.uid)
	}
	_ = unix.Close(src.fd)
	src.fd = -1
}
