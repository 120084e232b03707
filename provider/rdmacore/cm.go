//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// channel implements cm.TransportChannel. A goroutine holds the lock while it calls
// librdmacm for the channel or for one of its IDs.
type channel struct {
	provider *provider
	fd       int

	mu sync.Mutex
	c  *C.struct_rdma_event_channel // event channel of librdmacm; nil after Close
	// raw is the event that was fetched last.
	raw C.struct_rl_event
}

// OpenChannel opens an event channel. It implements cm.Transport.
//
// Implements: rdma_create_event_channel(3).
func (p *provider) OpenChannel() (cm.TransportChannel, error) {
	const op = "open event channel"
	if err := p.users.add(); err != nil {
		return nil, operr.Wrap(op, err)
	}
	c, err := C.rdma_create_event_channel()
	if c == nil {
		p.users.remove()
		return nil, createError(op, err)
	}
	ch := &channel{provider: p, c: c, fd: int(c.fd)}
	if err := cmError(op, int32(C.rl_nonblock(c.fd))); err != nil {
		_ = ch.Close()
		return nil, err
	}
	return ch, nil
}

func (ch *channel) FD() int { return ch.fd }

// NewID creates an ID on the channel.
//
// Implements: rdma_create_id(3).
func (ch *channel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.c == nil {
		return nil, verbs.ErrClosed
	}
	var c *C.struct_rdma_cm_id
	if err := cmError("new ID", int32(C.rl_create_id(ch.c, &c, C.int(ps)))); err != nil {
		return nil, err
	}
	return ch.adopt(c), nil
}

// adopt creates the Go object for an existing struct rdma_cm_id.
func (ch *channel) adopt(c *C.struct_rdma_cm_id) *id {
	i := &id{provider: ch.provider, c: c, minRNRTimer: cm.DefaultMinRNRTimer}
	i.channel.Store(ch)
	ch.provider.addID(i)
	return i
}

// Close closes the channel.
//
// Implements: rdma_destroy_event_channel(3).
func (ch *channel) Close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.c == nil {
		return nil
	}
	C.rdma_destroy_event_channel(ch.c)
	ch.c = nil
	ch.provider.users.remove()
	return nil
}

func (p *provider) addID(i *id) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[i.address()] = i
}

func (p *provider) removeID(i *id) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ids, i.address())
}

// id returns the ID whose struct rdma_cm_id has the given address, or nil.
func (p *provider) id(address uint64) *id {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[uintptr(address)]
}

func (i *id) address() uintptr { return uintptr(unsafe.Pointer(i.c)) }
