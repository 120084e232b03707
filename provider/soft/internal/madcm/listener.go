//go:build linux

package madcm

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A madListener receives the requests to a listening ID on the wire path. If the listener
// has no room for a request, it drops the request, and the peer retransmits the request.
type madListener struct {
	jobTarget
	id      *connmgr.ID
	addr    hostport.BindAddr
	service wire.ServiceID
	addrs   madAddrs
	// watches the host's addresses; nil unless the ID is bound to a wildcard
	watch *addressWatch
	// error of watching the host's addresses, or nil
	watchErr  error
	accepting bool
	// requests in the inbox of the channel; guarded by the multiplexer's lock
	waiting  map[*incomingRequest]struct{}
	halfOpen halfOpenTable // half-open connections; guarded by the multiplexer's lock
}

// Listen implements Transport. If the ID is bound to a wildcard, it listens at the
// addresses of all interfaces. An error for an address is stored in the field addrs.
func (mux *Mux) Listen(i *connmgr.ID) (connmgr.Listener, error) {
	l := &madListener{
		jobTarget: jobTarget{mux: mux, ch: mux.channelOf(i.Channel())}, id: i, addr: i.Reservation().Addr, accepting: true,
		waiting: make(map[*incomingRequest]struct{}), halfOpen: newHalfOpenTable(mux.MaxHalfOpen, mux.MaxHalfOpenPerAddress),
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

// SetAccepting implements Listener. While the listener does not accept, it drops REQs,
// but not SIDR_REQs.
func (l *madListener) SetAccepting(accept bool) { l.accepting = accept }

func (l *madListener) Move(ch *connmgr.Channel) error {
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

// Close implements Listener. It refuses the requests that the application has not fetched
// (rdma_destroy_id(3)).
func (l *madListener) Close() {
	for _, p := range l.addrs.ports() {
		p.drain()
	}
	l.mux.mu.Lock()
	l.closeTarget()
	rest := slices.DeleteFunc(l.mux.listeners[l.service], func(o *madListener) bool { return o == l })
	if l.mux.listeners[l.service] = rest; len(rest) == 0 {
		delete(l.mux.listeners, l.service)
	}
	for req := range l.waiting {
		if l.mux.concerned(&req.requestKey) == nil && l.mux.ports[req.port.local] == req.port {
			l.mux.refuse(req, cm.RejectConsumer, cm.SIDRReject)
		}
	}
	l.waiting = nil
	l.mux.mu.Unlock()
	l.watch.close(l.ch)
	l.addrs.close(l.ch)
}

var _ connmgr.Listener = (*madListener)(nil)
