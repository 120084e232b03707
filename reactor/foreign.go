package reactor

import (
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Registration is a descriptor of the application's that a loop watches. Its
// methods may be called on the loop only.
type Registration struct {
	loop  *Loop
	token poller.Token
	call  func(poller.Readiness)
}

type foreignSource Registration

func (s *foreignSource) cause() Cause { return CauseForeign }

func (s *foreignSource) ready(r poller.Readiness) (work int) {
	s.call(r)
	return 1
}

// Register calls ready on the loop whenever fd is ready for what interest says,
// level-triggered: as long as it is, ready is called again. The descriptor stays
// the application's, which closes it after Registration.Close. On the loop only.
func (l *Loop) Register(fd int, interest poller.Interest, ready func(poller.Readiness)) (*Registration, error) {
	r := &Registration{loop: l, call: ready}
	token, err := l.watch(fd, interest, (*foreignSource)(r))
	if err != nil {
		return nil, verbs.Wrap("register descriptor", err)
	}
	r.token = token
	return r, nil
}

// Modify changes what to watch for.
func (r *Registration) Modify(interest poller.Interest) error {
	return verbs.Wrap("modify registration", r.loop.poller.Modify(r.token, interest))
}

// Close stops watching, before the next call of the function. A second Close
// does nothing.
func (r *Registration) Close() error {
	return verbs.Wrap("close registration", r.loop.unwatch((*foreignSource)(r)))
}
