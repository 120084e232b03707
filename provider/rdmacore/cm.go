//go:build rdmacore && cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// channel implements cm.TransportChannel. Its lock is held over every call into
// librdmacm for the channel and its IDs; see the package.
type channel struct {
	provider *Provider
	fd       int

	mu  sync.Mutex
	c   *C.struct_rdma_event_channel // nil after Close
	raw C.struct_rl_event            // the last event, for its private data
}

// OpenChannel opens an event channel; see cm.Transport.
//
// Implements: rdma_create_event_channel(3).
func (p *Provider) OpenChannel() (cm.TransportChannel, error) {
	const op = "open event channel"
	if err := p.life.join(); err != nil {
		return nil, verbs.Wrap(op, err)
	}
	c, err := C.rdma_create_event_channel()
	if c == nil {
		p.life.leave()
		return nil, createError(op, err)
	}
	ch := &channel{provider: p, c: c, fd: int(c.fd)}
	if err := cmError(op, int32(C.rl_nonblock(c.fd))); err != nil {
		_ = ch.Close()
		return nil, err
	}
	return ch, nil
}

// FD is the channel's descriptor.
func (ch *channel) FD() int { return ch.fd }

// NewID makes an ID.
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

// adopt makes the Go side of an ID that exists, on the channel.
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
	ch.provider.life.leave()
	return nil
}

func (p *Provider) addID(i *id) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[i.address()] = i
}

func (p *Provider) removeID(i *id) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ids, i.address())
}

// id finds an ID by the address of its struct rdma_cm_id, or returns nil.
func (p *Provider) id(address uint64) *id {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[uintptr(address)]
}

func (i *id) address() uintptr { return uintptr(unsafe.Pointer(i.c)) }
