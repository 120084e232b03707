package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/poller"
)

// A Registration is a descriptor of the application that a loop watches. Its methods may
// be called only on the goroutine of the loop.
type Registration struct {
	loop  *Loop
	token poller.Token
	call  func(poller.Readiness)
}

// A foreignSource is a Registration with the methods of the interface source. It calls
// the function that was passed to Register.
type foreignSource Registration

func (s *foreignSource) wakeCause() WakeCause { return WakeByForeign }

func (s *foreignSource) ready(r poller.Readiness) (work int) {
	s.call(r)
	return 1
}

// Register makes the loop watch a descriptor. While fd is in one of the given
// states, the loop calls fn in its turns (level-triggered, see epoll(7)). Only the
// goroutine of the loop may call Register. The errors are those of poller.Poller.Add.
//
// The application owns fd, and closes fd after Registration.Close.
func (l *Loop) Register(fd int, interest poller.Interest, fn func(poller.Readiness)) (*Registration, error) {
	r := &Registration{loop: l, call: fn}
	token, err := l.watch(fd, interest, (*foreignSource)(r))
	if err != nil {
		return nil, operr.Wrap("register descriptor", err)
	}
	r.token = token
	return r, nil
}

// Modify changes the interest of the registration. The errors are those of
// poller.Poller.Modify; after Close the error matches poller.ErrToken.
func (r *Registration) Modify(interest poller.Interest) error {
	return operr.Wrap("modify registration", r.loop.poller.Modify(r.token, interest))
}

// Close ends the registration. The loop does not call the function again. A second Close
// does nothing.
func (r *Registration) Close() error {
	return operr.Wrap("close registration", r.loop.unwatch((*foreignSource)(r)))
}
