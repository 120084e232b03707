//go:build linux

package soft

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDatagramSources bounds the connections that one queue pair accepts. The
	// one that was idle for longest gives way; its sender connects again when it
	// has something to send. The number is arbitrary.
	maxDatagramSources = 1024
	// datagramBudget is how many datagrams of one connection, and how many new
	// connections, are taken in one look at the descriptors. It is arbitrary: few
	// enough that others get their turn.
	datagramBudget = 64
	// acceptRetry is how long a queue pair waits with new connections when there
	// are no descriptors for them. It is arbitrary.
	acceptRetry = 100 * time.Millisecond
)

// A datagramSource is a connection from another queue pair of this host, whose
// user is allowed. It belongs to the shard.
type datagramSource struct {
	p       *datagramPort
	fd      int
	lastUse uint64 // by the port's count of uses
}

// onReady accepts connections, for a port whose listening socket is ready.
func (p *datagramPort) onReady(int, uint32) {
	for range datagramBudget {
		if !p.accept() {
			return
		}
	}
}

// accept takes a connection, and reports whether there may be another.
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
		// The listening socket stays readable, and would keep the owner from
		// sleeping.
		p.q.shard.unwatch(p.listener)
		p.acceptTimer.start(acceptRetry)
	}
	return false
}

// acceptAgain is what acceptTimer does.
func (p *datagramPort) acceptAgain() {
	if p.q.shard.watch(p.listener, unix.EPOLLIN, p) != nil {
		p.acceptTimer.start(acceptRetry)
	}
}

// admit takes a new connection, if its user is allowed, and reads what came by it.
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

// closeIdlest closes the connection from which nothing has come for longest, and
// reports whether there was one.
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

// onReady takes what has arrived.
func (src *datagramSource) onReady(int, uint32) {
	for range datagramBudget {
		if !src.readOne() {
			return
		}
	}
}

// readOne takes one datagram, and reports whether there may be another. It closes
// the connection when the peer has, or when the peer has sent something else: an
// empty packet can not be told from the end, and nobody sends one.
func (src *datagramSource) readOne() bool {
	p := src.p
	n, err := unix.Read(src.fd, p.in)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case errors.Is(err, unix.ECONNRESET):
		return true // reported once, before what the peer has sent until then
	case err != nil || n == 0 || !p.receive(p.in[:n]):
		src.close()
		return false
	}
	p.uses++
	src.lastUse = p.uses
	return true
}

// finish closes the connection after taking what the peer has sent already. The
// peer can send no more from the beginning on, so that there is an end.
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
