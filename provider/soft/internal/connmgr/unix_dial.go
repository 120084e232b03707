//go:build linux

package connmgr

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A localDial sends a request to a listener on this host. The listener can have one of
// several names. The dial tries each name, and sends the request to the first listener
// of an allowed user. If there is none, the application gets an event.
//
// The dial connects the socket that reserves the port of the ID, so the listener can
// check the port. During the dial the unixConn owns the socket. If the dial fails, the
// ID's Reservation owns it again.
type localDial struct {
	c       *unixConn
	request message
	// retryTimer runs if a listener's backlog is full. When it expires, all names are
	// tried again.
	retryTimer timerheap.Timer
	rounds     int // number of times that all names were tried

	// Names that are not tried again, because their users are not allowed. The indices
	// are those of hostport.Targets.
	skipped [hostport.MaxTargets]bool
	// User of the first skipped process, or nil.
	skippedUser *cm.UserError
	// Error with which the system has refused a connection, or nil.
	denied error
}

const (
	// redialInterval is the time after which all names are tried again if a backlog is
	// full (connect(2), EAGAIN). Arbitrary.
	redialInterval = 5 * time.Millisecond
	// userLookupRounds is how often all names are tried before the dial looks up the
	// users of the listeners. So many tries take half a second. The lookup can take
	// long, if the host has many Unix sockets. Arbitrary.
	userLookupRounds = 100
)

// dialUnix sends a request to the listener at the ID's remote address.
func dialUnix(i *id, m message) error {
	c := &unixConn{ch: i.ch.Load(), id: i, fd: i.reservation.Take()}
	d := &localDial{c: c, request: m}
	d.retryTimer.Owner = d
	c.dial, i.conn = d, c
	err := d.run()
	if err != nil {
		d.returnSocket()
		i.conn = nil
	}
	return err
}

// OnTimer implements timerheap.Owner. It tries all names again.
func (d *localDial) OnTimer(*timerheap.Timer) {
	if err := d.run(); err != nil {
		d.returnSocket()
		d.c.id.dialFailed(err)
	}
}

// returnSocket transfers the socket back to the reservation, if the unixConn has it.
func (d *localDial) returnSocket() {
	if d.c.fd >= 0 {
		d.c.id.reservation.FD = d.c.takeSocket()
	}
}

// run tries each name once. An error ends the dial.
func (d *localDial) run() error {
	busy := false
	for n, s := range hostport.Targets(d.c.id.ps, d.c.id.remote) {
		if d.skipped[n] {
			continue
		}
		err := d.try(s.Name())
		var foreign *cm.UserError
		switch {
		case err == nil:
			return d.sendRequest()
		case errors.As(err, &foreign):
			d.skip(n, foreign)
		case errors.Is(err, unix.EAGAIN):
			busy = true
		case !isNoListener(err):
			return err
		case !errors.Is(err, unix.ECONNREFUSED):
			d.denied = err
		}
	}
	if d.rounds++; d.rounds == userLookupRounds {
		d.skipForeignListeners()
	}
	if busy {
		d.c.ch.startTimer(&d.retryTimer, redialInterval)
		return nil
	}
	d.returnSocket()
	d.c.id.noListener(d.cause())
	return nil
}

// try connects to a name. If the listener's user is not allowed, it sends nothing and
// returns a *cm.UserError.
func (d *localDial) try(name string) error {
	if err := d.openSocket(); err != nil {
		return err
	}
	fd := d.c.fd
	if err := unixsock.Connect(fd, name); err != nil {
		return err
	}
	peer, err := unixsock.PeerCredentials(fd)
	if err != nil {
		return err
	}
	if d.c.ch.m.Users.Allows(peer.UID) {
		d.c.peer, d.c.connected = peer, true
		return nil
	}
	return errors.Join(&cm.UserError{UID: peer.UID, Name: name}, d.replaceSocket())
}

// isNoListener reports whether an error of connect(2) means that nobody listens, or that
// a security module has refused the connection.
func isNoListener(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// openSocket makes a socket with the name that reserves the ID's port. It does nothing if
// the dial has a socket.
func (d *localDial) openSocket() (err error) {
	if d.c.fd >= 0 {
		return nil
	}
	s := d.c.id.reservation.Addr
	d.c.fd, err = unixsock.Bind(s.Name())
	if errors.Is(err, unix.EADDRINUSE) {
		err = hostport.ExplainClash(s.Clash(s))
	}
	return err
}

// replaceSocket replaces a socket that is connected to a wrong process by a new socket
// with the same name. If another process binds the name in between, the dial fails.
//
// ForkLock ensures that no new child process keeps the old socket open.
func (d *localDial) replaceSocket() error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	_ = unix.Close(d.c.takeSocket())
	return d.openSocket()
}

// skip excludes a name from all further tries.
func (d *localDial) skip(n int, holder *cm.UserError) {
	d.c.ch.m.LocalCounts.Inc(counters.SkippedUserErr)
	d.skipped[n] = true
	if d.skippedUser == nil {
		d.skippedUser = holder
	}
}

// skipForeignListeners skips names whose listeners belong to users who are not allowed.
// It asks the system for the users, because a listener with a full backlog accepts no
// connection.
func (d *localDial) skipForeignListeners() {
	for n, s := range hostport.Targets(d.c.id.ps, d.c.id.remote) {
		uid, known := unixsock.User(s.Name(), unix.SOCK_SEQPACKET)
		if known && !d.skipped[n] && !d.c.ch.m.Users.Allows(uid) {
			d.skip(n, &cm.UserError{UID: uid, Name: s.Name()})
		}
	}
}

// sendRequest ends the search. It sends the request on the connected socket.
func (d *localDial) sendRequest() error {
	c := d.c
	if err := c.ch.watch(c.fd, c); err != nil {
		c.connected = false
		return errors.Join(err, d.replaceSocket())
	}
	c.dial = nil
	c.hold(d.request)
	// If the listener has closed the connection, the channel calls peerGone later.
	_ = c.send(d.request)
	return nil
}

// cause returns the reason why no listener was found. It is nil if no process listens.
func (d *localDial) cause() error {
	switch {
	case d.skippedUser != nil:
		return d.skippedUser
	case d.denied != nil:
		return d.denied
	case d.c.ch.m.Wire:
		return errLocalOnly
	}
	return nil
}
