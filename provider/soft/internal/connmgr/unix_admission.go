//go:build linux

package connmgr

import (
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// An admission is the permission of a client to connect to a listener. The client counts
// as a connection of its user until the admission is released. The field spare
// reserves a descriptor for the doorbell of the connection.
type admission struct {
	m   *Manager // manager of the listener; nil for the zero value
	uid uint32
	// open descriptor in reserve for the doorbell; nil after useSpare has closed it
	spare *fdevent.Event
}

// admit returns an admission for a client of the user uid. If the user has too many
// connections, or if no descriptor is free, admit returns false. The result refused is
// then the counter for the reason.
func (m *Manager) admit(uid uint32) (c admission, refused counters.ID, ok bool) {
	if !m.UserLimit.Acquire(uid) {
		return admission{}, counters.UserLimitErr, false
	}
	if m.Spare.Fill() {
		if spare, err := fdevent.NewEvent(); err == nil {
			return admission{m: m, uid: uid, spare: spare}, 0, true
		}
	}
	m.UserLimit.Release(uid)
	return admission{}, counters.NoDescriptorsErr, false
}

// useSpare closes the descriptor in reserve, so that the doorbell can be opened.
func (c *admission) useSpare() {
	_ = c.spare.Close()
	c.spare = nil
}

func (c *admission) release() {
	if c.m != nil {
		c.useSpare()
		c.m.UserLimit.Release(c.uid)
		c.m = nil
	}
}
