package poller

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/slots"
)

// Causes of errors. Test for them with errors.Is.
var (
	// ErrClosed reports a call on a closed poller.
	ErrClosed = errors.New("poller: closed")
	// ErrToken reports a token whose registration was removed, or that never existed.
	ErrToken = errors.New("poller: no such registration")
)

// A Poller waits for descriptors. It belongs to one goroutine; only Wake may be called
// from others.
type Poller struct {
	epoll  epoll
	regs   slots.Table[registration]
	n      int  // number of events that the last Wait has returned
	woken  bool // The last Wait has noticed a call of Wake.
	closed bool
	// Other goroutines write to the waker. Each write slows down accesses to fields in
	// the same cache line. The waker is the last field, so few other fields share its
	// cache line.
	waker waker
}

type registration struct {
	fd   int
	data uint64
}

// wakeToken is the token of the waker. No registration has this token.
const wakeToken Token = 0

// New returns a poller. The parameter maxEvents is the largest number of events that one
// Wait reports. New returns an error if maxEvents is less than 1. If a system call
// fails, for example with EMFILE, the error is an *os.SyscallError. On systems other
// than Linux the error matches errors.ErrUnsupported.
func New(maxEvents int) (*Poller, error) {
	if maxEvents < 1 {
		return nil, fmt.Errorf("poller: %d events per Wait: at least 1 is needed", maxEvents)
	}
	p := &Poller{}
	if err := p.epoll.open(maxEvents); err != nil {
		return nil, err
	}
	if err := p.waker.open(); err != nil {
		return nil, errors.Join(err, p.epoll.close())
	}
	if err := p.epoll.add(p.waker.fd, Readable, wakeToken); err != nil {
		return nil, errors.Join(err, p.waker.close(), p.epoll.close())
	}
	return p, nil
}

// FD returns the epoll descriptor, which can be registered in another event loop. It is
// readable while Wait(0) would report an event or a wake-up. The poller owns the
// descriptor. After Close, FD returns -1.
func (p *Poller) FD() int { return p.epoll.fd }

// Add registers the descriptor fd, level-triggered. Each Event of the registration has
// the value of the parameter data in its field Data.
//
// The caller keeps the descriptor, and must call Remove before it closes the descriptor.
// Otherwise, if a duplicate of the descriptor is still open in this process or in
// another, the kernel continues to report the closed descriptor, and the registration
// can not be removed any more.
//
// The error is ErrClosed or an *os.SyscallError: EEXIST if fd is already registered,
// EPERM if epoll can not wait for fd, for example because it is a regular file, ELOOP if
// the pollers would form a cycle. Source: epoll_ctl(2).
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

// Modify replaces the interest of a registration. It does not change the events that the
// last Wait has returned. The error is ErrClosed, ErrToken or an *os.SyscallError.
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

// Remove ends a registration. From then on Event returns no events of it, not even those
// that the last Wait has found. The registration ends even if Remove returns an error.
// The error is ErrClosed, ErrToken, or an *os.SyscallError if the descriptor was closed
// before.
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

// Wait waits until a descriptor is ready, Wake is called, or the timeout has passed. It
// returns the number of events.
//
// A negative timeout means no limit. With a timeout of zero, Wait never blocks. Such a
// call does not enter the scheduler of the Go runtime, and is cheap enough for a loop
// that spins. All other timeouts have a resolution of 1 ns. On kernels before 5.11 the
// resolution is 1 ms, and timeouts are rounded up. The kernel adds the timer slack of the
// thread, 50 µs by default (PR_SET_TIMERSLACK of prctl(2)).
//
// Signals do not end the wait. A result of 0 without an error usually means that the
// timeout has passed or Wake was called. But a caller must not rely on that, because a
// return can also be spurious. The error is ErrClosed or an *os.SyscallError. Source:
// epoll_wait(2).
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

// takeWake removes the waker's event from the n events of the last wait. It returns the
// number of the other events.
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

// Event returns the event with the index i of the last Wait. The first event has the
// index 0. Event returns false if the last Wait returned too few events for that index,
// or if the registration was removed after that Wait.
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

// Wake ends the current Wait or, if the owner is not in Wait, the next one. Any goroutine
// may call it. Until that Wait has returned, further calls of Wake have no effect and
// cost one atomic operation each. All memory writes of the caller before Wake are visible
// to the owner after that Wait. After Close, Wake does nothing.
func (p *Poller) Wake() { p.waker.wake() }

// Woken reports whether the last Wait has noticed a call of Wake.
func (p *Poller) Woken() bool { return p.woken }

// Close closes the descriptors of the poller itself. Registered descriptors stay open.
// After Close, Add, Modify, Remove and Wait return ErrClosed, Event returns false, Wake
// does nothing, and a second Close returns nil. Only the owner may call Close. A
// goroutine that wants another one to close the poller calls Wake, and the owner then
// calls Close.
func (p *Poller) Close() error {
	if p.closed {
		return nil
	}
	p.closed, p.n, p.woken = true, 0, false
	return errors.Join(p.waker.close(), p.epoll.close())
}

// check returns an error if the poller is closed, or if the interest has a bit that is
// not allowed.
func (p *Poller) check(interest Interest) error {
	if p.closed {
		return ErrClosed
	}
	if interest&^(Readable|Writable) != 0 {
		return fmt.Errorf("poller: interest %#x: only Readable and Writable are allowed", uint8(interest))
	}
	return nil
}
