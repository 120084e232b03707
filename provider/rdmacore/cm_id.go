//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// id implements cm.TransportID. The lock of the event channel protects the fields c, qp
// and minRNRTimer.
type id struct {
	provider *provider
	// The event channel of the ID. Migrate changes it while it holds the locks of the
	// old and the new channel.
	channel atomic.Pointer[channel]
	c       *C.struct_rdma_cm_id
	qp      *qp // queue pair that was created on the ID, or nil

	// minRNRTimer is the RNR timer code for the queue pair, 0 to 31.
	minRNRTimer uint8
}

// lock locks the channel of the ID and returns it. The caller must unlock the channel.
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

// do makes one call of librdmacm with the channel locked. op names the call in errors.
func (i *id) do(op string, call func() C.int) error {
	ch := i.lock()
	defer ch.mu.Unlock()
	return cmError(op, int32(call()))
}

// Bind binds the ID to a local address. It refuses loopback addresses, because librdmacm
// would treat them as the wildcard.
//
// Implements: rdma_bind_addr(3).
func (i *id) Bind(addr netip.AddrPort) error {
	if addr.Addr().IsLoopback() {
		return errLoopback
	}
	raw := toSockaddr(addr)
	return i.do("bind", func() C.int { return C.rl_bind(i.c, raw.c()) })
}

// Listen makes the ID a listener for connection requests.
//
// Implements: rdma_listen(3).
func (i *id) Listen(backlog int) error {
	return i.do("listen", func() C.int { return C.rl_listen(i.c, C.int(min(backlog, 1<<30))) })
}

// ResolveAddr starts to look for a device that leads to the peer.
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

// ResolveRoute starts to look for a route to the peer.
//
// Implements: rdma_resolve_route(3).
func (i *id) ResolveRoute(timeout time.Duration) error {
	return i.do("resolve route", func() C.int { return C.rl_resolve_route(i.c, milliseconds(timeout)) })
}

// errLoopback is the error for a loopback address; see verbs.Caps.LoopbackAddrs.
var errLoopback = errors.Join(cm.ErrAddrNotAvailable, errors.New("no RDMA device has a loopback address"))

// milliseconds converts a duration to milliseconds. It rounds up, because librdmacm does
// not accept 0.
func milliseconds(d time.Duration) C.int {
	return C.int((d + time.Millisecond - 1) / time.Millisecond)
}

// Connect sends a connection request.
//
// Implements: rdma_connect(3).
func (i *id) Connect(param *cm.MessageParam) error {
	raw := toParam(param)
	return i.do("connect", func() C.int { return C.rl_connect(i.c, &raw) })
}

// Accept accepts a request and moves the queue pair to RTS.
//
// Implements: rdma_accept(3).
func (i *id) Accept(param *cm.MessageParam) error {
	ch := i.lock()
	defer ch.mu.Unlock()
	if i.qp == nil && i.c.ps == C.RDMA_PS_UDP && param.QKey != cm.DefaultQKey {
		return operr.Wrap("accept", &verbs.FeatureError{
			Feature: "Q_Key of a queue pair without ID",
			Reason:  errors.New("librdmacm sends its own Q_Key to the peer"),
		})
	}
	raw := toParam(param)
	if err := cmError("accept", int32(C.rl_accept(i.c, &raw))); err != nil {
		return err
	}
	if i.qp != nil {
		i.reachedRTS()
	}
	return nil
}

// Reject rejects a request or a reply. The reason is always RejectConsumer.
//
// Implements: rdma_reject(3).
func (i *id) Reject(_ cm.RejectReason, data []byte) error {
	raw := toParam(&cm.MessageParam{PrivateData: data})
	return i.do("reject", func() C.int { return C.rl_reject(i.c, &raw.data[0], raw.data_len) })
}

// Establish completes a connection whose ID has no queue pair.
//
// Implements: rdma_establish(3).
func (i *id) Establish() error {
	return i.do("establish", func() C.int { return C.rl_establish(i.c) })
}

// Notify tells the kernel about an asynchronous event of the queue pair.
//
// Implements: rdma_notify(3).
func (i *id) Notify(event verbs.AsyncEventType) error {
	return i.do("notify", func() C.int { return C.rl_notify(i.c, C.int(event)) })
}

// Disconnect moves the queue pair to ERROR and sends a disconnect request. It is not an
// error if the connection does not exist or has already ended. rdma_disconnect(3) takes no
// private data.
//
// Implements: rdma_disconnect(3).
func (i *id) Disconnect([]byte) error {
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

// SetOption sets an option. OptionMinRNRTimer takes effect when the queue pair reaches
// RTS.
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

// Migrate moves the ID to another channel. rdma_migrate_id would wait until all events
// of the ID are acknowledged. Next has already acknowledged them, so Migrate never
// waits.
//
// Implements: rdma_migrate_id(3).
func (i *id) Migrate(to cm.TransportChannel) error {
	target, ok := to.(*channel)
	if !ok || target.provider != i.provider {
		return verbs.ErrForeign
	}
	// Only one call runs at a time. Otherwise two calls could lock the channels in
	// opposite orders.
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

// Device returns the device to which the ID is bound, or nil.
func (i *id) Device() verbs.Device {
	ch := i.lock()
	defer ch.mu.Unlock()
	if i.c.verbs == nil {
		return nil
	}
	d := i.provider.device(i.c.verbs)
	if d == nil {
		return nil // A nil pointer in an interface would not be equal to nil.
	}
	return d
}

// Port returns the number of the device's port to which the ID is bound.
func (i *id) Port() uint8 {
	ch := i.lock()
	defer ch.mu.Unlock()
	return uint8(i.c.port_num)
}

// LocalAddr returns the address of this side.
//
// Implements: rdma_get_local_addr(3).
func (i *id) LocalAddr() netip.AddrPort { return i.addr(0) }

// RemoteAddr returns the address of the peer.
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

// c returns a pointer to the address for C code.
func (s *sockaddr) c() *C.uint8_t { return (*C.uint8_t)(&s[0]) }

// Destroy destroys the ID.
//
// Implements: rdma_destroy_id(3).
func (i *id) Destroy() error {
	ch := i.lock()
	defer ch.mu.Unlock()
	// The ID is removed from the table first, because a new ID may get the same address.
	i.provider.removeID(i)
	return cmError("destroy ID", int32(C.rl_destroy_id(i.c)))
}
