//go:build linux

package madcm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A listener receives the requests to a listening ID on the wire path. If the listener
// has no room for a request, it drops the request, and the peer retransmits the request.
type listener struct {
	jobTarget
	id      *connmgr.ID
	addr    hostport.BindAddr
	service wire.ServiceID
	addrs   listenAddrs
	// watches the host's addresses; nil if the ID is not bound to a wildcard, or if the
	// addresses never change
	watch *addressWatch
	// error of watching the host's addresses, or nil
	watchErr  error
	accepting bool
	// requests in the inbox of the channel, with the numbers of their arrival; guarded by the
	// multiplexer's lock
	waiting  map[*incomingRequest]uint64
	arrived  uint64        // number of requests that have waited so far
	halfOpen halfOpenTable // half-open connections; guarded by the multiplexer's lock
}

// Listen implements connmgr.Transport. If the ID is bound to a wildcard, it listens at the
// addresses of all interfaces. An error for an address is stored in the field addrs.
func (mux *Mux) Listen(i *connmgr.ID) (connmgr.Listener, error) {
	l := &listener{
		jobTarget: jobTarget{mux: mux, ch: mux.channelOf(i.Channel())}, id: i, addr: i.Reservation().Addr, accepting: true,
		waiting: make(map[*incomingRequest]uint64), halfOpen: newHalfOpenTable(mux.MaxHalfOpen, mux.MaxHalfOpenPerAddress),
		service: wire.NewServiceID(uint16(i.PortSpace()), i.Reservation().Addr.Port),
	}
	if l.addr.Wildcard() {
		l.followAddresses()
	} else {
		l.addrs.add(l, l.addr.Addr)
	}
	mux.mu.Lock()
	defer mux.mu.Unlock()
	mux.listeners[l.service] = append(mux.listeners[l.service], l)
	return l, nil
}

// SetAccepting implements connmgr.Listener. While the listener does not accept, it drops
// REQs, but not SIDR_REQs.
func (l *listener) SetAccepting(accept bool) { l.accepting = accept }

func (l *listener) Move(ch *connmgr.Channel) error {
	to := l.mux.channelOf(ch)
	if err := l.watch.move(l.ch, to); err != nil {
		return err
	}
	ports := l.addrs.ports()
	for i, p := range ports {
		if err := movePort(p, l.ch, to); err != nil {
			for _, done := range ports[:i] {
				_ = movePort(done, to, l.ch)
			}
			// The watch for address changes returns to the old channel.
			_ = l.watch.move(to, l.ch)
			return err
		}
	}
	l.setChannel(to)
	return nil
}

// Close implements connmgr.Listener. It refuses the requests that the application has not
// fetched (rdma_destroy_id(3)).
func (l *listener) Close() {
	for _, p := range l.addrs.ports() {
		p.drain()
	}
	l.mux.mu.Lock()
	l.closeTarget()
	rest := slices.DeleteFunc(l.mux.listeners[l.service], func(o *listener) bool { return o == l })
	if l.mux.listeners[l.service] = rest; len(rest) == 0 {
		delete(l.mux.listeners, l.service)
	}
	byArrival := func(a, b *incomingRequest) int { return cmp.Compare(l.waiting[a], l.waiting[b]) }
	for _, req := range slices.SortedFunc(maps.Keys(l.waiting), byArrival) {
		if l.mux.concerned(&req.requestKey) == nil {
			l.mux.refuse(req, cm.RejectConsumer, cm.SIDRReject)
		}
	}
	l.waiting = nil
	l.mux.mu.Unlock()
	l.watch.close(l.ch)
	l.addrs.close(l.ch)
}

var _ connmgr.Listener = (*listener)(nil)

// A listenAddr is an address at which a listener receives requests on the wire path.
type listenAddr struct {
	addr netip.Addr
	port *port // UDP port at the address; nil if it could not be opened
	err  error // error of opening the UDP port, or nil
}

// listenAddrs are the addresses of one listener. The lock of the listener's channel guards
// them.
type listenAddrs []*listenAddr

// add adds an address and opens its UDP port. If the port can not be opened, the field
// err of the new listenAddr has the error.
func (as *listenAddrs) add(l *listener, addr netip.Addr) {
	a := &listenAddr{addr: addr}
	a.open(l)
	*as = append(*as, a)
}

func (a *listenAddr) open(l *listener) { a.port, a.err = l.mux.open(a.addr, l.ch) }

// set replaces the addresses of the listener. It closes the UDP ports of removed
// addresses and opens the UDP ports of new ones. It also tries again to open ports that
// could not be opened before. The result is true if anything has changed.
func (as *listenAddrs) set(l *listener, addrs []netip.Addr) (changed bool) {
	for _, a := range *as {
		if !slices.Contains(addrs, a.addr) {
			a.close(l.ch)
			changed = true
		}
	}
	*as = slices.DeleteFunc(*as, func(a *listenAddr) bool { return !slices.Contains(addrs, a.addr) })
	for _, addr := range addrs {
		i := slices.IndexFunc(*as, func(a *listenAddr) bool { return a.addr == addr })
		switch {
		case i < 0:
			as.add(l, addr)
			changed = true
		case (*as)[i].port == nil:
			(*as)[i].open(l)
			changed = changed || (*as)[i].port != nil
		}
	}
	return changed
}

func (a *listenAddr) close(ch *channel) {
	if a.port != nil {
		a.port.closeNow(ch)
		a.port = nil
	}
}

func (as listenAddrs) close(ch *channel) {
	for _, a := range as {
		a.close(ch)
	}
}

// ports returns the open UDP ports.
func (as listenAddrs) ports() (open []*port) {
	for _, a := range as {
		if a.port != nil {
			open = append(open, a.port)
		}
	}
	return open
}

// interfaceAddrs returns the addresses of the host at which a listener on a wildcard
// receives requests. It omits link-local addresses. If the device has the local path, it
// omits loopback addresses too.
func (l *listener) interfaceAddrs() (addrs []netip.Addr, err error) {
	all, err := l.mux.Host.Addrs()
	for _, addr := range all {
		local := addr.IsLoopback() && l.mux.AlsoLocal
		if !addr.IsLinkLocalUnicast() && !local && l.addr.Covers(netip.AddrPortFrom(addr, l.addr.Port)) {
			addrs = append(addrs, addr)
		}
	}
	return addrs, err
}

// followAddresses opens the listener at the present addresses of the host, and begins to
// watch for changes of the addresses.
func (l *listener) followAddresses() {
	// No change is missed, because the watch starts before the addresses are listed.
	if !l.mux.Host.FixedAddrs() {
		l.watch, l.watchErr = watchAddresses(l.ch, l)
	}
	addrs, err := l.interfaceAddrs()
	if err != nil {
		l.watchErr = err
	}
	l.addrs.set(l, addrs)
}

// addressesChanged updates the addresses of the listener. If they have changed, the
// application gets the event AddrChange.
func (l *listener) addressesChanged() {
	addrs, err := l.interfaceAddrs()
	if err == nil && l.addrs.set(l, addrs) {
		l.id.AddressesChanged()
	}
}

// Serves implements connmgr.Listener. If the host's addresses can not be watched, the
// result has one additional element, with the address of the ID and the error of
// watching.
func (l *listener) Serves() (served []cm.ServedAddr) {
	for _, a := range l.addrs {
		served = append(served, l.served(a.addr, a.err))
	}
	if l.watchErr != nil {
		served = append(served, l.served(l.addr.Addr, l.watchErr))
	}
	return served
}

func (l *listener) served(addr netip.Addr, err error) cm.ServedAddr {
	return cm.ServedAddr{Path: connmgr.WirePath, Addr: netip.AddrPortFrom(addr, l.addr.Port), Err: err}
}

// addressWatch is a netlink socket. It becomes readable when an address in this network
// namespace changes (rtnetlink(7)). The lock of its channel guards it.
type addressWatch struct {
	fd int
	// listener whose addresses are watched; changes call its method addressesChanged
	listener *listener
}

// watchAddresses opens an addressWatch for the listener l on the channel ch. This needs
// no privilege.
func watchAddresses(ch *channel, l *listener) (*addressWatch, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, addressWatchError(err)
	}
	const groups = unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
	w := &addressWatch{fd: fd, listener: l}
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	if err == nil {
		err = ch.Watch(fd, w)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, addressWatchError(err)
	}
	return w, nil
}

func addressWatchError(err error) error {
	return fmt.Errorf("later address changes are not noticed: %w", err)
}

// addressBatch is the largest number of messages that one call of OnReady receives. The
// number is arbitrary.
const addressBatch = 64

// OnReady implements fdevent.Handler. It receives messages, and then calls
// addressesChanged once for all of them.
func (w *addressWatch) OnReady(int, uint32) {
	// One byte is enough, because the content of a message is not needed. recv(2) discards
	// the rest.
	var buf [1]byte
	for i := range addressBatch {
		_, _, err := unix.Recvfrom(w.fd, buf[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if errors.Is(err, unix.EAGAIN) && i == 0 {
			// There is no message, so no address has changed.
			return
		}
		// ENOBUFS means that messages were lost. Addresses may have changed.
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			break
		}
	}
	w.listener.addressesChanged()
}

// move moves the watch to another channel. It does nothing if w is nil.
func (w *addressWatch) move(from, to *channel) error {
	if w == nil {
		return nil
	}
	if err := to.Watch(w.fd, w); err != nil {
		return err
	}
	from.Unwatch(w.fd)
	return nil
}

func (w *addressWatch) close(ch *channel) {
	if w == nil {
		return
	}
	ch.Unwatch(w.fd)
	_ = unix.Close(w.fd)
}

var _ fdevent.Handler = (*addressWatch)(nil)
