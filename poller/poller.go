package poller

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

// Causes of errors; test with errors.Is.
var (
	// ErrClosed: the poller was closed.
	ErrClosed = errors.New("poller: closed")
	// ErrToken: the token names no registration, or one that was removed.
	ErrToken = errors.New("poller: no such registration")
)

// What a registration asks for and what an event tells. The constants have no
// type, so that they serve both as Interest and as Readiness.
const (
	// Readable: a read would not block. The end of the stream is readable.
	Readable = 1 << iota
	// Writable: a write would not block.
	Writable
	// Hangup: both directions are shut. Always reported, never asked for.
	Hangup
	// Error: the descriptor has an error pending, or is the writing end of a
	// pipe that nobody reads. Always reported, never asked for.
	Error
)

// Interest is what a registration asks for: Readable, Writable, both, or
// neither, which leaves Hangup and Error.
type Interest uint8

// Readiness is what an event tells: any of Readable, Writable, Hangup, Error.
type Readiness uint8

// A Token names a registration from Add until Remove. Zero is never one, nor
// does the token of a removed registration come to name another.
type Token uint64

// An Event says that a registered descriptor is ready, or was a moment ago.
type Event struct {
	Token Token
	Data  uint64 // as given to Add
	Ready Readiness
}

// A Poller waits for descriptors. It belongs to one goroutine; only Wake may be
// called from others.
type Poller struct {
	epoll  epoll
	regs   slots.Table[registration]
	n      int // events of the last Wait
	woken  bool
	closed bool
	waker  waker // last: others write to it
}

type registration struct {
	fd   int
	data uint64
}

// wakeToken is the token of the waker: zero, which no registration has.
const wakeToken Token = 0

// New returns a poller whose Wait reports up to maxEvents events, at least 1, at
// a time. The error is an *os.SyscallError when the system refuses, such as EMFILE.
func New(maxEvents int) (*Poller, error) {
	if maxEvents < 1 {
		return nil, fmt.Errorf("poller: room for %d events: at least 1 is needed", maxEvents)
	}
	p := &Poller{}
	if err := p.epoll.open(maxEvents); err != nil {
		return nil, err
	}
	if err := p.waker.bell.open(); err != nil {
		return nil, errors.Join(err, p.epoll.close())
	}
	if err := p.epoll.add(p.waker.bell.fd, Readable, wakeToken); err != nil {
		return nil, errors.Join(err, p.waker.close(), p.epoll.close())
	}
	return p, nil
}

// FD returns the epoll descriptor, for registration in another loop: it is
// readable while Wait(0) would report an event or a wake-up. It stays the
// poller's, and is -1 after Close.
func (p *Poller) FD() int { return p.epoll.fd }

// Add registers fd, level-triggered. The descriptor stays the caller's, who
// must Remove it before closing it: a closed descriptor that has a duplicate,
// in this process or another, would go on being reported with no way to stop it.
// Data comes back in every Event.
//
// The error is ErrClosed or an *os.SyscallError: EEXIST when fd is registered
// already, EPERM when it can not be waited for, as a regular file, ELOOP when
// pollers would be nested in a circle. See epoll_ctl(2).
func (p *Poller) Add(fd int, interest Interest, data uint64) (Token, error) {
	if err := p.check(interest); err != nil {
		return 0, err
	}
	h := p.regs.Put(registration{fd: fd, data: data})
	if err := p.epoll.add(fd, interest, Token(h)); err != nil {
		p.regs.Remove(h)
		return 0, err
	}
	return Token(h), nil
}

// Modify replaces what the registration asks for. Events that the last Wait
// found are not taken back. The error is ErrClosed, ErrToken or an
// *os.SyscallError.
func (p *Poller) Modify(t Token, interest Interest) error {
	if err := p.check(interest); err != nil {
		return err
	}
	r, ok := p.regs.Get(slots.Handle(t))
	if !ok {
		return ErrToken
	}
	return p.epoll.modify(r.fd, interest, t)
}

// Remove ends a registration: no event has its token any more, not even those
// that the last Wait found. It is gone also when an error is returned: ErrClosed,
// ErrToken, or an *os.SyscallError, which means that the descriptor was closed first.
func (p *Poller) Remove(t Token) error {
	if p.closed {
		return ErrClosed
	}
	r, ok := p.regs.Remove(slots.Handle(t))
	if !ok {
		return ErrToken
	}
	return p.epoll.remove(r.fd)
}

// Wait waits until a descriptor is ready, Wake is called, or the timeout has
// passed, and returns the number of events. A negative timeout is none. Zero
// looks and never waits: it does not enter the scheduler of the runtime, and so
// is cheap enough to be called between spins. Otherwise the resolution is a
// nanosecond, or a millisecond, rounded up, on kernels before 5.11; the kernel
// adds the timer slack of the thread, 50 µs unless changed by prctl(2).
//
// Signals do not end the wait. No events and no error mean that the timeout
// passed or that Wake was called, but may also mean nothing. The error is
// ErrClosed or an *os.SyscallError. See epoll_wait(2).
func (p *Poller) Wait(timeout time.Duration) (n int, err error) {
	p.n, p.woken = 0, false
	if p.closed {
		return 0, ErrClosed
	}
	if n, err = p.epoll.wait(timeout); err != nil {
		return 0, err
	}
	p.n = p.takeWake(n)
	return p.n, nil
}

// takeWake takes the waker's event out of the n events, if it is among them,
// and returns how many are left.
func (p *Poller) takeWake(n int) int {
	for i := range n {
		if p.epoll.token(i) == wakeToken {
			p.waker.consume()
			p.woken = true
			p.epoll.copy(i, n-1)
			return n - 1
		}
	}
	return n
}

// Event returns the i-th event of the last Wait, and false when there is none:
// i is not below Wait's result, or the registration was removed since.
func (p *Poller) Event(i int) (ev Event, ok bool) {
	if uint(i) >= uint(p.n) {
		return Event{}, false
	}
	t := p.epoll.token(i)
	r, ok := p.regs.Get(slots.Handle(t))
	if !ok {
		return Event{}, false
	}
	return Event{Token: t, Data: r.data, Ready: p.epoll.ready(i)}, true
}

// Wake ends the present Wait, or else the next one. Any goroutine may call.
// Wakes coalesce: until the owner has seen the first, the others cost one atomic
// operation. What the caller did before Wake is visible to the owner after the
// Wait that saw it. After Close, Wake does nothing.
func (p *Poller) Wake() { p.waker.wake() }

// Woken reports whether Wake was called for the last Wait to see.
func (p *Poller) Woken() bool { return p.woken }

// Close releases the poller's own descriptors; the registered ones stay open.
// Later calls return ErrClosed, Event finds nothing, Wake does nothing, and
// Close returns nil. Nobody can be in Wait but the owner: to close a poller
// from elsewhere, Wake the owner and let it call.
func (p *Poller) Close() error {
	if p.closed {
		return nil
	}
	p.closed, p.n, p.woken = true, 0, false
	return errors.Join(p.waker.close(), p.epoll.close())
}

// check refuses what no registration may ask for, and a closed poller.
func (p *Poller) check(interest Interest) error {
	if p.closed {
		return ErrClosed
	}
	if interest&^(Readable|Writable) != 0 {
		return fmt.Errorf("poller: interest %#x: only Readable and Writable can be asked for", uint8(interest))
	}
	return nil
}
