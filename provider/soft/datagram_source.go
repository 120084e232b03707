//go:build linux

package soft

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDatagramSources bounds the connections that one queue pair accepts. A further
	// one replaces the one that was idle for longest; the sender of that one connects
	// again when it has something to send. The number is arbitrary.
	maxDatagramSources = 1024
	// datagramBudget is how many datagrams of one connection, and how many new
	// connections, are handled before other descriptors get their turn. It is arbitrary.
	datagramBudget = 64
	// acceptRetry is how long a queue pair waits before it tries again to accept
	// connections for which it had no descriptors. It is arbitrary.
	acceptRetry = 100 * time.Millisecond
)

// A datagramSource is an accepted connection from another queue pair of this host,
// whose user is allowed. It belongs to the shard.
type datagramSource struct {
	p       *datagramPort
	fd      int
	lastUse uint64 // value of datagramPort.uses at the last use
}

// onReady accepts connections when the listening socket is ready.
func (p *datagramPort) onReady(int, uint32) {
	for range datagramBudget {
		if !p.accept() {
			return
		}
	}
}

// accept accepts one connection, and reports whether there may be more.
func (p *datagramPort) accept() bool {
	fd, err := acceptSocket(p.listener)
	switch {
	case err == nil:
		p.admit(fd)
		return true
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		if p.closeIdlest() {
			return true
		}
		// The listening socket stays readable, which would keep the owner from sleeping.
		p.q.shard.unwatch(p.listener)
		p.acceptTimer.start(acceptRetry)
	}
	return false
}

// acceptAgain is called when acceptTimer fires.
func (p *datagramPort) acceptAgain() {
	if p.q.shard.watch(p.listener, unix.EPOLLIN, p) != nil {
		p.acceptTimer.start(acceptRetry)
	}
}

// admit adds a new connection if its user is allowed, and reads its datagrams.
func (p *datagramPort) admit(fd int) {
	if !p.q.dev.allowsPeer(fd) {
		p.q.shard.counts.inc(datagramUserRefused)
		_ = unix.Close(fd)
		return
	}
	if len(p.sources) >= maxDatagramSources {
		p.closeIdlest()
	}
	src := &datagramSource{p: p, fd: fd, lastUse: p.uses}
	if p.q.shard.watch(fd, unix.EPOLLIN, src) != nil {
		_ = unix.Close(fd)
		return
	}
	p.sources[fd] = src
	src.onReady(fd, unix.EPOLLIN)
}

// closeIdlest closes the connection that was idle for longest, and reports whether
// there was one.
func (p *datagramPort) closeIdlest() bool {
	var idlest *datagramSource
	for _, src := range p.sources {
		if idlest == nil || src.lastUse < idlest.lastUse {
			idlest = src
		}
	}
	if idlest != nil {
		idlest.finish()
	}
	return idlest != nil
}

// onReady reads the datagrams that have arrived.
func (src *datagramSource) onReady(int, uint32) {
	for range datagramBudget {
		if !src.readOne() {
			return
		}
	}
}

// readOne reads one datagram, and reports whether there may be more. It closes the
// connection if the peer has closed it, or has sent an invalid packet. An empty
// packet looks like a closed connection, and no valid packet is empty.
func (src *datagramSource) readOne() bool {
	p := src.p
	n, err := unix.Read(src.fd, p.in)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case errors.Is(err, unix.ECONNRESET):
		return true // reported once, before the datagrams that the peer had sent
	case err != nil || n == 0 || !p.receive(p.in[:n]):
		src.close()
		return false
	}
	p.uses++
	src.lastUse = p.uses
	return true
}

// finish reads the datagrams that the peer has sent, and closes the connection. It
// first stops the peer from sending more, so that it comes to an end.
func (src *datagramSource) finish() {
	_ = unix.Shutdown(src.fd, unix.SHUT_RD)
	for src.readOne() {
	}
	src.close()
}

func (src *datagramSource) close() {
	if src.p.sources[src.fd] != src {
		return
	}
	delete(src.p.sources, src.fd)
	src.p.q.shard.unwatch(src.fd)
	_ = unix.Close(src.fd)
}
