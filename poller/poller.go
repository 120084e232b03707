package poller

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
)

// Causes of errors. Test for them with errors.Is.
var (
	// ErrClosed reports a call on a closed poller.
	ErrClosed = errors.New("poller: closed")
	// ErrToken reports a token whose registration was removed, or that never existed.
	ErrToken = errors.New("poller: no such registration")
)

// A Poller waits for descriptors to become ready. It belongs to one goroutine. Other
// goroutines may only call Wake.
type Poller struct {
	set    *fdevent.Set[uint64] // the values are the data of the registrations
	n      int                  // number of events of the last Wait
	woken  bool                 // result of Woken
	closed bool
	// The waker is the last field, because other goroutines write to its cache line.
	waker waker
}

// wakeToken is the token of the waker, which is attached to the set. Registrations have
// other tokens.
const wakeToken fdevent.Token = 0

// New returns a poller. One Wait reports at most maxEvents events, which must be at
// least 1, or else New returns an error. If a system call fails, the error is an
// *os.SyscallError. On systems other than Linux, the error matches errors.ErrUnsupported.
func New(maxEvents int) (*Poller, error) {
	if maxEvents < 1 {
		return nil, fmt.Errorf("poller: %d events per Wait: at least 1 is needed", maxEvents)
	}
	set, err := fdevent.NewSet[uint64](maxEvents)
	if err != nil {
		return nil, err
	}
	event, err := fdevent.NewEvent()
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	if err := set.Attach(event.FD(), fdevent.In); err != nil {
		return nil, errors.Join(err, event.Close(), set.Close())
	}
	return &Poller{set: set, waker: waker{event: event}}, nil
}

// FD returns the epoll descriptor, for another event loop. It is readable while Wait(0)
// would report an event or a wake-up. The poller owns the descriptor. After Close, FD
// returns -1.
func (p *Poller) FD() int { return p.set.FD() }

// Add registers the descriptor fd, level-triggered. Each event of the registration
// carries data, which can be any number.
//
// Call Remove before you close the descriptor. Otherwise the kernel may go on reporting
// the closed descriptor, and then it can not be removed any more (epoll_ctl(2)). A later
// Remove would end the registration of a new descriptor with the same number.
//
// An interest with other bits than Readable and Writable is an error. The other errors are
// ErrClosed and *os.SyscallError. EEXIST means that fd is registered already. EPERM means
// that epoll can not wait for fd. ELOOP means that pollers would wait for each other in a
// circle.
func (p *Poller) Add(fd int, interest Interest, data uint64) (Token, error) {
	if err := p.check(interest); err != nil {
		return 0, err
	}
	t, err := p.set.Add(fd, interest.events(), data)
	return Token(t), err
}

// Modify replaces the interest of a registration. The events of the last Wait do not
// change. The error is ErrToken, or one of the errors of Add.
func (p *Poller) Modify(t Token, interest Interest) error {
	if err := p.check(interest); err != nil {
		return err
	}
	ok, err := p.set.Modify(fdevent.Token(t), interest.events())
	if !ok {
		return ErrToken
	}
	return err
}

// Remove ends a registration, even if it returns an error. Event returns no more events
// of the registration, not even from the last Wait. The error is ErrClosed, ErrToken or
// an *os.SyscallError. EBADF means that the descriptor was closed before Remove.
func (p *Poller) Remove(t Token) error {
	if p.closed {
		return ErrClosed
	}
	ok, err := p.set.Remove(fdevent.Token(t))
	if !ok {
		return ErrToken
	}
	return err
}

// Wait waits until a descriptor is ready, Wake is called, or the timeout has passed. It
// returns the number of events; call Event for each. A wake-up is not an event, so the
// number may be 0 then. Signals do not end the wait. The error is ErrClosed or an
// *os.SyscallError. Source: epoll_wait(2).
//
// A negative timeout means no limit. A zero timeout never blocks and is cheap. Other
// timeouts have a resolution of 1 ns. Before Linux 5.11 they are rounded up to 1 ms. The
// kernel adds the thread's timer slack.
func (p *Poller) Wait(timeout time.Duration) (n int, err error) {
	p.n, p.woken = 0, false
	if p.closed {
		return 0, ErrClosed
	}
	if n, err = p.set.Wait(timeout); err != nil {
		return 0, err
	}
	p.n = p.takeWake(n)
	return p.n, nil
}

// takeWake removes the waker's event from the n events, and returns the number of the
// other events.
func (p *Poller) takeWake(n int) int {
	for i := range n {
		if p.set.Token(i) == wakeToken {
			p.waker.consume()
			p.woken = true
			p.set.Copy(i, n-1)
			return n - 1
		}
	}
	return n
}

// Event returns event i of the last Wait. The first event has number 0. If there is no
// such event, or if its registration was removed meanwhile, ok is false.
func (p *Poller) Event(i int) (ev Event, ok bool) {
	if uint(i) >= uint(p.n) {
		return Event{}, false
	}
	t := p.set.Token(i)
	e, ok := p.set.Get(t)
	if !ok {
		return Event{}, false
	}
	return Event{Token: Token(t), Data: e.Value, Ready: readiness(p.set.Events(i))}, true
}

// Wake ends the current Wait. If the owner is not in Wait, the next Wait ends at once.
// Any goroutine may call Wake. After the Wait, the owner sees everything that the caller
// wrote to memory before Wake.
//
// If the owner has not noticed an earlier Wake yet, another Wake costs only one atomic
// operation. After Close, Wake does nothing.
func (p *Poller) Wake() { p.waker.wake() }

// Woken reports whether the last Wait has noticed a call of Wake.
func (p *Poller) Woken() bool { return p.woken }

// Close closes the poller, but not the registered descriptors. Only the owner may call
// Close. After Close, Add, Modify, Remove and Wait return ErrClosed. A second Close
// returns nil.
func (p *Poller) Close() error {
	if p.closed {
		return nil
	}
	p.closed, p.n, p.woken = true, 0, false
	return errors.Join(p.waker.close(), p.set.Close())
}

// check returns an error after Close, or if the interest has unknown bits.
func (p *Poller) check(interest Interest) error {
	if p.closed {
		return ErrClosed
	}
	if interest&^(Readable|Writable) != 0 {
		return fmt.Errorf("poller: interest %#x: only Readable and Writable are allowed", uint8(interest))
	}
	return nil
}
