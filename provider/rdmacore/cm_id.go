//go:build rdmacore && cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
	"golang.org/x/sys/unix"
)

// id implements cm.TransportID. The lock of its channel covers it.
type id struct {
	provider *Provider
	channel  atomic.Pointer[channel] // changes with the locks of both channels held
	c        *C.struct_rdma_cm_id
	qp       *qp // made on the ID, or nil

	// minRNRTimer is the timer code for the queue pair. It changes with the channel's
	// lock held.
	minRNRTimer uint8
}

// lock locks the channel the ID is on; the caller unlocks what it returns.
func (i *id) lock() *channel {
	for {
		ch := i.channel.Load()
		ch.mu.Lock()
		if i.channel.Load() == ch {
			return ch
		}
		ch.mu.Unlock()
	}
}

// do makes one call into librdmacm.
func (i *id) do(op string, call func() C.int) error {
	ch := i.lock()
	defer ch.mu.Unlock()
	return cmError(op, int32(call()))
}

// Bind binds to a local address. Loopback addresses are refused: librdmacm takes
// them for the wildcard.
//
// Implements: rdma_bind_addr(3).
func (i *id) Bind(addr netip.AddrPort) error {
	if addr.Addr().IsLoopback() {
		return errLoopback
	}
	raw := toSockaddr(addr)
	return i.do("bind", func() C.int { return C.rl_bind(i.c, raw.c()) })
}

// Listen starts listening.
//
// Implements: rdma_listen(3).
func (i *id) Listen(backlog int) error {
	return i.do("listen", func() C.int { return C.rl_listen(i.c, C.int(min(backlog, 1<<30))) })
}

// ResolveAddr starts finding the device.
//
// Implements: rdma_resolve_addr(3).
func (i *id) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	if dst.Addr().IsLoopback() || src.Addr().IsLoopback() {
		return errLoopback
	}
	to, from := toSockaddr(dst), toSockaddr(src)
	return i.do("resolve address", func() C.int {
		if !src.IsValid() {
			return C.rl_resolve_addr(i.c, nil, to.c(), milliseconds(timeout))
		}
		return C.rl_resolve_addr(i.c, from.c(), to.c(), milliseconds(timeout))
	})
}

// ResolveRoute starts finding the route.
//
// Implements: rdma_resolve_route(3).
func (i *id) ResolveRoute(timeout time.Duration) error {
	return i.do("resolve route", func() C.int { return C.rl_resolve_route(i.c, milliseconds(timeout)) })
}

// errLoopback: see Caps.LoopbackAddrs.
var errLoopback = errors.Join(cm.ErrAddrNotAvailable, errors.New("a loopback address leads to no RDMA device"))

// milliseconds rounds up: 0 is not allowed.
func milliseconds(d time.Duration) C.int {
	return C.int((d + time.Millisecond - 1) / time.Millisecond)
}

// Connect starts a connection.
//
// Implements: rdma_connect(3).
func (i *id) Connect(param *cm.ConnParam) error {
	raw := toParam(param)
	return i.do("connect", func() C.int { return C.rl_connect(i.c, &raw) })
}

// Accept answers a request. The library moves the queue pair to RTS before the
// peer hears of it.
//
// Implements: rdma_accept(3).
func (i *id) Accept(param *cm.ConnParam) error {
	ch := i.lock()
	defer ch.mu.Unlock()
	if i.qp == nil && i.c.ps == C.RDMA_PS_UDP && param.QKey != cm.DefaultQKey {
		return verbs.Wrap("accept", &verbs.FeatureError{
			Feature: "Q_Key of a queue pair without ID",
			Reason:  errors.New("librdmacm tells the peer its own"),
		})
	}
	raw := toParam(param)
	if err := cmError("accept", int32(C.rl_accept(i.c, &raw))); err != nil {
		return err
	}
	if i.qp != nil {
		i.ready()
	}
	return nil
}

// Reject refuses a request or a response. The reason that the peer gets is always
// RejectConsumer, because rdma_reject(3) has no parameter for it.
//
// Implements: rdma_reject(3).
func (i *id) Reject(_ cm.RejectReason, data []byte) error {
	raw := toParam(&cm.ConnParam{PrivateData: data})
	return i.do("reject", func() C.int { return C.rl_reject(i.c, &raw.data[0], raw.data_len) })
}

// Establish completes a connection without queue pair.
//
// Implements: rdma_establish(3).
func (i *id) Establish() error {
	return i.do("establish", func() C.int { return C.rl_establish(i.c) })
}

// Notify tells the kernel of an event of the queue pair.
//
// Implements: rdma_notify(3).
func (i *id) Notify(event verbs.AsyncEventType) error {
	return i.do("notify", func() C.int { return C.rl_notify(i.c, C.int(event)) })
}

// Disconnect moves the queue pair to ERROR and tells the peer. EINVAL means that
// there is nobody to tell, which is no harm.
//
// Implements: rdma_disconnect(3).
func (i *id) Disconnect() error {
	ch := i.lock()
	defer ch.mu.Unlock()
	if i.qp != nil {
		i.qp.setLast(verbs.StateError)
	}
	if code := C.rl_disconnect(i.c); code != -C.int(unix.EINVAL) {
		return cmError("disconnect", int32(code))
	}
	return nil
}

// SetOption sets an option. The option numbers are those of librdmacm, which has no
// option for the RNR timer.
//
// Implements: rdma_set_option(3).
func (i *id) SetOption(option cm.Option, value int) error {
	if option == cm.OptionMinRNRTimer {
		ch := i.lock()
		defer ch.mu.Unlock()
		i.minRNRTimer = uint8(value)
		return nil
	}
	return i.do("set option", func() C.int { return C.rl_set_option(i.c, C.int(option), C.int(value)) })
}

// Migrate moves the ID. It waits for nothing, since events are acknowledged as
// soon as they are fetched.
//
// Implements: rdma_migrate_id(3).
func (i *id) Migrate(to cm.TransportChannel) error {
	target, ok := to.(*channel)
	if !ok || target.provider != i.provider {
		return verbs.ErrForeign
	}
	// Two locks, which two goroutines might want in different orders.
	i.provider.migrating.Lock()
	defer i.provider.migrating.Unlock()
	from := i.lock()
	defer from.mu.Unlock()
	if target == from {
		return nil
	}
	target.mu.Lock()
	defer target.mu.Unlock()
	if target.c == nil {
		return verbs.ErrClosed
	}
	if err := cmError("migrate", int32(C.rl_migrate(i.c, target.c))); err != nil {
		return err
	}
	i.channel.Store(target)
	return nil
}

// Device is the device the ID is bound to, or nil.
func (i *id) Device() verbs.Device {
	ch := i.lock()
	defer ch.mu.Unlock()
	if i.c.verbs == nil {
		return nil
	}
	d := i.provider.device(i.c.verbs)
	if d == nil {
		return nil // not a *device in an interface
	}
	return d
}

// Port is the port of the device.
func (i *id) Port() uint8 {
	ch := i.lock()
	defer ch.mu.Unlock()
	return uint8(i.c.port_num)
}

// LocalAddr is the address of this side.
//
// Implements: rdma_get_local_addr(3).
func (i *id) LocalAddr() netip.AddrPort { return i.addr(0) }

// RemoteAddr is the address of the peer.
//
// Implements: rdma_get_peer_addr(3).
func (i *id) RemoteAddr() netip.AddrPort { return i.addr(1) }

func (i *id) addr(peer C.int) netip.AddrPort {
	ch := i.lock()
	defer ch.mu.Unlock()
	var raw sockaddr
	C.rl_addr(i.c, peer, raw.c())
	return fromSockaddr(&raw)
}

// c is the address as the shim takes it.
func (s *sockaddr) c() *C.uint8_t { return (*C.uint8_t)(&s[0]) }

// Destroy ends the ID.
//
// Implements: rdma_destroy_id(3).
func (i *id) Destroy() error {
	ch := i.lock()
	defer ch.mu.Unlock()
	// First the Go side: the next ID may get the same address.
	i.provider.removeID(i)
	return cmError("destroy ID", int32(C.rl_destroy_id(i.c)))
}
