//go:build linux

package unixcm

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A dial sends a request to a listener on this host. The socket of the listener can
// have one of several names. The dial tries each name, and sends the request to the
// first listener whose user is allowed. If there is no such listener, the application
// gets an event.
//
// The listener checks the source port of the request. Therefore the dial connects the
// socket whose name reserves the port of the ID. The conn owns the socket during the
// dial. If the dial fails, the socket returns to the Reservation of the ID.
type dial struct {
	*conn   // connection that looks for its listener
	request connmgr.Message
	// retryTimer runs after a try in which the backlog of a listener was full. When it
	// expires, all names are tried again.
	retryTimer timerheap.Timer
	rounds     int // number of rounds in which all names were tried

	// True for each name whose listener belongs to a user who is not allowed. Such a
	// name is not tried again. The indices are those of hostport.Host.Targets.
	skipped [hostport.MaxTargets]bool
	// Error of the first skipped name, or nil.
	skippedError error
	// Error of a connection that a security module has refused, or nil.
	denied error
}

const (
	// A dial tries the socket names of all listeners that may serve the address. If a backlog
	// is full (connect(2), EAGAIN), redialInterval is the time before the next round. The
	// number is arbitrary.
	redialInterval = 5 * time.Millisecond
	// userLookupRounds is the number of rounds through all names after which the dial
	// asks the kernel for the users of the listeners. These rounds take half a second.
	// To ask is slow on a host with many Unix sockets. The number is arbitrary.
	userLookupRounds = 100
)

// Dial implements connmgr.Conn. It takes the socket from the Reservation of the ID.
func (c *conn) Dial(m connmgr.Message) error {
	c.fd = c.id.Reservation().Take()
	d := &dial{conn: c, request: m}
	d.retryTimer.Owner = d
	c.dialing = d
	err := d.run()
	if err != nil {
		d.returnSocket()
		c.dialing = nil
	}
	return err
}

// OnTimer implements timerheap.Owner. It tries all names again.
func (d *dial) OnTimer(*timerheap.Timer) {
	if err := d.run(); err != nil {
		d.returnSocket()
		d.id.DialFailed(err)
	}
}

// returnSocket transfers the socket from the conn to the Reservation of the ID. It
// does nothing if the conn owns no socket.
func (d *dial) returnSocket() {
	if d.fd >= 0 {
		d.id.Reservation().FD = d.takeSocket()
	}
}

// run tries each name once. If run returns an error, the dial has failed.
func (d *dial) run() error {
	busy := false
	for n, s := range d.t.Host.Targets(d.id.PortSpace(), d.id.Endpoints().Dst) {
		if d.skipped[n] {
			continue
		}
		err := d.try(s.Name())
		switch {
		case err == nil:
			return d.sendRequest()
		case errors.Is(err, cm.ErrUserNotAllowed):
			d.skip(n, err)
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
		d.ch.StartTimer(&d.retryTimer, redialInterval)
		return nil
	}
	d.returnSocket()
	d.id.NoListener(d.cause())
	return nil
}

// try connects to the listener with a name. If the user of the listener is not allowed,
// try sends nothing and returns a foreignUser.
func (d *dial) try(name string) error {
	if err := d.openSocket(); err != nil {
		return err
	}
	fd := d.fd
	if err := unixsock.Connect(fd, name); err != nil {
		return err
	}
	peer, err := unixsock.PeerCredentials(fd)
	if err != nil {
		return err
	}
	if d.t.Users.Allows(peer.UID) {
		d.peer = peer
		return nil
	}
	_ = d.replaceSocket() // If it fails, so does the next try.
	return foreignUser(name, peer.UID)
}

// foreignUser returns the error of a listener whose user is not allowed.
func foreignUser(name string, uid uint32) error {
	return fmt.Errorf("%w: %s belongs to user %d", cm.ErrUserNotAllowed, name, uid)
}

// isNoListener reports whether an error of connect(2) means that no process listens on a
// name, or that a security module has refused the connection.
func isNoListener(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// openSocket opens a socket with the name that reserves the ID's port. It does nothing if
// the conn already owns a socket.
func (d *dial) openSocket() (err error) {
	if d.fd >= 0 {
		return nil
	}
	s := d.id.Reservation().Addr
	d.fd, err = unixsock.Bind(s.Name())
	d.t.Host.Opened(d.fd)
	if errors.Is(err, unix.EADDRINUSE) {
		err = hostport.ExplainClash(s.Clash(s))
	}
	return err
}

// replaceSocket closes the connected socket and makes a new one with the same name. It
// is called if the user of the listener is not allowed. If another process takes the
// name first, the dial fails.
//
// ForkLock ensures that no new child process keeps the old socket open.
func (d *dial) replaceSocket() error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	_ = unix.Close(d.takeSocket())
	return d.openSocket()
}

// skip makes the dial no longer try the name with the index n.
func (d *dial) skip(n int, reason error) {
	d.t.Counts.Inc(counters.SkippedUserErr)
	d.skipped[n] = true
	d.skippedError = cmp.Or(d.skippedError, reason)
}

// skipForeignListeners skips each name whose listener belongs to a user who is not
// allowed. It gets the users from the kernel, because a listener with a full backlog
// accepts no connection.
func (d *dial) skipForeignListeners() {
	for n, s := range d.t.Host.Targets(d.id.PortSpace(), d.id.Endpoints().Dst) {
		uid, known := unixsock.User(s.Name(), unix.SOCK_SEQPACKET)
		if known && !d.skipped[n] && !d.t.Users.Allows(uid) {
			d.skip(n, foreignUser(s.Name(), uid))
		}
	}
}

// sendRequest sends the request on the connected socket, and ends the search.
func (d *dial) sendRequest() error {
	c := d.conn
	if err := c.ch.Watch(c.fd, c); err != nil {
		return errors.Join(err, d.replaceSocket())
	}
	c.dialing = nil
	c.id.SetPeer(c.peer)
	c.hold(d.request)
	// An error means that the listener has closed the connection. The channel will notice
	// that and call PeerGone.
	_ = c.Send(d.request)
	return nil
}

// cause returns an additional explanation why the dial has found no listener, or nil.
func (d *dial) cause() error {
	switch {
	case d.skippedError != nil:
		return d.skippedError
	case d.denied != nil:
		return d.denied
	case d.t.AlsoWire:
		return connmgr.ErrLocalOnly
	}
	return nil
}
