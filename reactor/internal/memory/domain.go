// Package memory has the protection domains of an engine, and the registrations of
// memory on its devices.
package memory

import (
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Domain is the protection domain of an engine on one device. All loops of the engine
// use it. So a key is valid for the connections of all loops.
type Domain struct {
	Dev   verbs.Device
	PD    verbs.PD
	Index int // number of the domains of the engine that were made before
}

// Domains has the domains of an engine. Any goroutine may call the methods. The zero
// value is empty.
type Domains struct {
	mu     sync.Mutex
	open   []*Domain
	closed bool // the engine has ended
}

// Of returns the domain of a device. The first call for a device makes its domain. After
// a call of Close, the error is verbs.ErrClosed.
func (s *Domains) Of(dev verbs.Device) (*Domain, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.open, func(d *Domain) bool { return d.Dev == dev }); i >= 0 {
		return s.open[i], nil
	}
	if s.closed {
		return nil, verbs.ErrClosed
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	d := &Domain{Dev: dev, PD: pd, Index: len(s.open)}
	s.open = append(s.open, d)
	return d, nil
}

// All returns the domains.
func (s *Domains) All() []*Domain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.open)
}

// Close closes all domains. All objects of the domains must be closed already.
func (s *Domains) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.open {
		if closeErr := d.PD.Close(); err == nil {
			err = closeErr
		}
	}
	s.open, s.closed = nil, true
	return err
}
