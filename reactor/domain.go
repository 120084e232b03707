package reactor

import (
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A domain is the protection domain of an engine on one device. All loops of the engine
// use it. So a key is valid for the connections of all loops.
type domain struct {
	dev   verbs.Device
	pd    verbs.PD
	index int // index in domains.open
}

// domains has the domains of an engine. Any goroutine may call the methods. The zero
// value is empty.
type domains struct {
	mu     sync.Mutex
	open   []*domain
	closed bool // the engine has ended
}

// of returns the domain of a device. The first call for a device makes its domain. After
// a call of close(), the error is ErrClosed.
func (s *domains) of(dev verbs.Device) (*domain, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.open, func(d *domain) bool { return d.dev == dev }); i >= 0 {
		return s.open[i], nil
	}
	if s.closed {
		return nil, ErrClosed
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	d := &domain{dev: dev, pd: pd, index: len(s.open)}
	s.open = append(s.open, d)
	return d, nil
}

// all returns the domains.
func (s *domains) all() []*domain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.open)
}

// close closes all domains. All objects of the domains must be closed already.
func (s *domains) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.open {
		err = firstError(err, d.pd.Close())
	}
	s.open, s.closed = nil, true
	return err
}
