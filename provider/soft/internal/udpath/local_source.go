//go:build linux

package udpath

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
	// maxDatagramSources is the maximum number of connections that a queue pair accepts.
	// At the limit, a new connection replaces the one from evictionCandidate. Arbitrary.
	maxDatagramSources = 1024
	// datagramBudget is how many datagrams of a connection are read at a time. It is
	// also how many connections are accepted at a time. Arbitrary.
	datagramBudget = 64
	// acceptRetry is how long a queue pair waits if no descriptor is free. Arbitrary.
	acceptRetry = 100 * time.Millisecond
)

// A localSource is an accepted connection from another UD queue pair of this host. Its
// user is allowed. A localSource belongs to the shard.
type localSource struct {
	local   *localPath
	fd      int    // descriptor of the connection; -1 after close()
	uid     uint32 // user ID of the sending process
	lastUse uint64 // value of localPath.uses when a datagram was last received from this source
}

// OnReady accepts connections. SpareDescriptors.Accept may close the spare descriptors,
// so OnReady opens them again.
func (p *localPath) OnReady(int, uint32) {
	defer p.all.Spare.Fill()
	for range datagramBudget {
		if !p.accept() {
			return
		}
	}
}

// accept accepts one connection, and reports whether more may be waiting.
func (p *localPath) accept() bool {
	fd, err := p.all.Spare.Accept(p.listener)
	if err == nil {
		p.all.Host.Opened(fd)
		p.admit(fd)
		return true
	}
	if resource.NoDescriptors(err) {
		// The connection stays in the backlog, so the listening socket stays readable. If
		// epoll watched this socket, each epoll_wait would return at once. So the socket
		// is removed from epoll until acceptTimer fires.
		p.shard.Unwatch(p.listener)
		p.acceptTimer.Start(acceptRetry)
	}
	return false
}

func (p *localPath) acceptAgain() {
	if p.shard.Watch(p.listener, unix.EPOLLIN, p) != nil {
		p.acceptTimer.Start(acceptRetry)
	}
}

// admit adds a new connection of an allowed user, and reads its datagrams. If a limit is
// reached, admit() closes the connection after reading.
func (p *localPath) admit(fd int) {
	peer, err := unixsock.PeerCredentials(fd)
	if err != nil || !p.all.Users.Allows(peer.UID) {
		p.q.Counts().Inc(counters.DatagramUserRefused)
		_ = unix.Close(fd)
		p.all.Spare.Fill()
		return
	}
	src := &localSource{local: p, fd: fd, uid: peer.UID, lastUse: p.uses}
	if cause, ok := src.enter(); !ok {
		p.q.Counts().Limit(cause)
		src.finish()
		return
	}
	src.OnReady(fd, unix.EPOLLIN)
}

// enter adds a connection to the queue pair. If a limit is reached, enter() first closes
// an old connection. If that is not possible, ok is false, and refused is the counter to
// increment.
func (src *localSource) enter() (refused counters.ID, ok bool) {
	p, conns := src.local, src.local.all.Limit
	if !conns.Acquire(src.uid) && !(p.closeLeastRecentlyUsed(src.uid) && conns.Acquire(src.uid)) {
		return counters.UserLimitErr, false
	}
	if len(p.sources) >= maxDatagramSources {
		p.evictionCandidate(src.uid).finish()
	}
	if !p.fillSpare(src.uid) || p.shard.Watch(src.fd, unix.EPOLLIN, src) != nil {
		conns.Release(src.uid)
		return counters.NoDescriptorsErr, false
	}
	p.sources[src.fd] = src
	return 0, true
}

// fillSpare opens the missing spare descriptors. If necessary, it closes connections. It
// returns false if spare descriptors are still missing.
func (p *localPath) fillSpare(newUser uint32) bool {
	for range unixsock.SpareCount {
		if p.all.Spare.Fill() {
			return true
		}
		src := p.evictionCandidate(newUser)
		if src == nil {
			return false
		}
		src.finish()
	}
	return p.all.Spare.Fill()
}

// closeLeastRecentlyUsed closes one connection of a user: the one that was idle for the
// longest time. It returns false if the user has no connection.
func (p *localPath) closeLeastRecentlyUsed(uid uint32) bool {
	var idlest *localSource
	for _, src := range p.sources {
		if src.uid == uid && (idlest == nil || src.lastUse < idlest.lastUse) {
			idlest = src
		}
	}
	if idlest != nil {
		idlest.finish()
	}
	return idlest != nil
}

// evictionCandidate returns the connection to close for a new connection of newUser, or
// nil if there are none. See access.LeastUsedOfBusiest.
func (p *localPath) evictionCandidate(newUser uint32) *localSource {
	return access.LeastUsedOfBusiest(maps.Values(p.sources), newUser,
		func(src *localSource) uint32 { return src.uid },
		func(a, b *localSource) bool { return a.lastUse < b.lastUse })
}

// OnReady reads the datagrams that have arrived.
func (src *localSource) OnReady(int, uint32) {
	for range datagramBudget {
		if !src.readOne() {
			return
		}
	}
}

// readOne reads one datagram, and reports whether more may wait. After an error or an
// invalid packet it closes the connection.
func (src *localSource) readOne() bool {
	p := src.local
	n, err := unix.Read(src.fd, p.in)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case errors.Is(err, unix.ECONNRESET):
		// The peer has closed the connection. The socket may have further datagrams.
		return true
	case err != nil || n == 0 || !p.receive(p.in[:n]):
		src.close()
		return false
	}
	p.uses++
	src.lastUse = p.uses
	return true
}

// finish reads the datagrams that the peer has sent, and closes the connection.
func (src *localSource) finish() {
	_ = unix.Shutdown(src.fd, unix.SHUT_RD)
	for src.readOne() {
	}
	src.close()
}

// close closes the connection, and removes it from the queue pair.
func (src *localSource) close() {
	if src.fd < 0 {
		return
	}
	if p := src.local; p.sources[src.fd] == src {
		delete(p.sources, src.fd)
		p.shard.Unwatch(src.fd)
		p.all.Limit.Release(src.uid)
	}
	_ = unix.Close(src.fd)
	src.fd = -1
}
