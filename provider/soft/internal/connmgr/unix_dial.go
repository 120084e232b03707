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

// A localDial searches for the listener of a request under each name that the listener
// may have. The search ends when the request was sent to a listener whose user is
// allowed. If no listener is found, an event tells the application the reason.
//
// The socket that connects is the socket that reserves the port of the ID. So the
// listener can check that its peer has the port. Before the dial the reservation owns
// the socket. During the dial the unixConn owns it. After a failed dial the reservation
// owns it again.
type localDial struct {
	c       *unixConn
	request message
	// retryTimer runs if the backlog of a listener is full. When it expires, all names
	// are tried again.
	retryTimer timerheap.Timer
	rounds     int // number of times that all names were tried

	// skipped marks the names that are not tried again, by index in the sequence of
	// hostport.Targets. The processes that listen on these names belong to users who are
	// not allowed.
	skipped [hostport.MaxTargets]bool
	// skippedUser names the user of the first skipped process. It is nil if no process
	// was skipped.
	skippedUser *cm.UserError
	// denied is the error with which the system has refused a connection to a listener;
	// nil if there was no such error.
	denied error
}

const (
	// redialInterval is the time after which all names are tried again if the backlog of
	// a listener is full. The system does not report when the backlog has room again
	// (connect(2), EAGAIN). The number is arbitrary.
	redialInterval = 5 * time.Millisecond
	// userLookupRounds is how often all names are tried while a backlog is full, which
	// takes half a second. After that the dial asks the system for the user of each
	// listener, and skips the listeners of users who are not allowed. The dial does not
	// ask earlier, because the answer takes time in proportion to the number of Unix
	// sockets on the host. The number is arbitrary.
	userLookupRounds = 100
)

// dialUnix sends a request to the listener at the ID's remote address.
func dialUnix(i *id, m message) error {
	c := &unixConn{ch: i.ch.Load(), id: i, fd: i.reservation.Take()}
	d := &localDial{c: c, request: m}
	d.retryTimer.Fire = func() { d.retry() }
	c.dial, i.conn = d, c
	err := d.run()
	if err != nil {
		d.returnSocket()
		i.conn = nil
	}
	return err
}

// retry continues the dial when retryTimer expires.
func (d *localDial) retry() {
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

// try connects to a name. If the process that listens on the name belongs to a user who
// is not allowed, try closes the connection and returns a *cm.UserError. It does not
// send the request.
func (d *localDial) try(name string) error {
	if err := d.openSocket(); err != nil {
		return err
	}
	fd := d.c.fd
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
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

// isNoListener reports whether an error of connect(2) means that no listener is
// available under the name: no socket has the name, the socket does not listen, or a
// security module separates the two processes.
func isNoListener(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// openSocket makes the socket of the dial if there is none. There is none if an earlier
// call of replaceSocket has closed the old socket and failed to make the new one.
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

// replaceSocket closes the socket, which is connected to a process that must not get the
// request, and makes another socket with the same name. In between the name is free. If
// another process binds it then, the dial fails.
//
// A child process has a copy of the socket until it executes its program, and the copy
// keeps the name bound. So replaceSocket takes ForkLock, which prevents the start of a
// child process.
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

// skipForeignListeners skips each name whose listener belongs to a user who is not
// allowed. A connected socket shows the user of its listener, but a listener with a full
// backlog accepts no connection. So skipForeignListeners asks the system for the user.
func (d *localDial) skipForeignListeners() {
	for n, s := range hostport.Targets(d.c.id.ps, d.c.id.remote) {
		uid, known := unixsock.User(s.Name(), unix.SOCK_SEQPACKET)
		if known && !d.skipped[n] && !d.c.ch.m.Users.Allows(uid) {
			d.skip(n, &cm.UserError{UID: uid, Name: s.Name()})
		}
	}
}

// sendRequest ends the search by sending the request on the connected socket.
func (d *localDial) sendRequest() error {
	c := d.c
	if err := c.ch.watch(c.fd, c); err != nil {
		c.connected = false
		return errors.Join(err, d.replaceSocket())
	}
	c.dial = nil
	// An error of Send is ignored: if the listener has closed the connection, the
	// channel notices that later and calls peerGone.
	_ = unixsock.Send(c.fd, encode(d.request), nil)
	return nil
}

// cause returns the reason why no listener was found, or nil if the reason is only that
// nobody listens.
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
