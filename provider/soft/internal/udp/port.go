//go:build linux

package udp

import (
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

// Ports are the local addresses on which a device uses RoCEv2. Its methods may be called
// from any goroutine.
type Ports struct {
	udpPort uint16
	slots   uint32 // number of slots; each shard has one
	farOnly bool   // packets that this host has sent are dropped

	mu            sync.Mutex
	ports         map[netip.Addr]*localPort
	droppedBefore uint64 // datagrams that were dropped at sockets that are closed
}

// A localPort has the sockets of one local address: one for connection management, and
// one or more for each shard that has queue pairs at the address. The sockets share
// the UDP port, and a BPF program selects one of them by the destination queue pair
// of a packet. The mutex of Ports guards it.
//
// The sockets stay open until the last user releases the port. When one is closed, the
// system renumbers the others, and packets would reach the wrong shard.
type localPort struct {
	ports *Ports
	local netip.AddrPort
	users int
	gsi   int // socket of connection management, opened first
	// members has the sockets of shards, in the order in which they joined.
	members []member
}

// A member is a socket of a shard. A shard may have several sockets, over which
// steer distributes its queue pairs.
type member struct {
	slot uint32 // identifies the shard
	fd   int
}

// NewPorts returns the ports of a device, none of which is open. All have the UDP port
// number. slots is the number of slots of shards. With farOnly, packets that this host
// has sent are dropped.
func NewPorts(number uint16, slots uint32, farOnly bool) *Ports {
	return &Ports{udpPort: number, slots: slots, farOnly: farOnly, ports: make(map[netip.Addr]*localPort)}
}

// acquire opens the port of an address of this host, or adds a user to it.
func (ps *Ports) acquire(local netip.Addr) (*localPort, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.ports[local]; p != nil {
		p.users++
		return p, nil
	}
	p := &localPort{ports: ps, local: netip.AddrPortFrom(local, ps.udpPort), users: 1}
	var err error
	if p.gsi, err = openSocket(p.local, socketOptions{farOnly: ps.farOnly}); err != nil {
		return nil, err
	}
	// From now on other sockets of this device can join. Sockets of other devices can not,
	// because a device opens its first socket without SO_REUSEPORT.
	if err := unix.SetsockoptInt(p.gsi, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		_ = unix.Close(p.gsi)
		return nil, err
	}
	ps.ports[local] = p
	return p, nil
}

// release ends acquire. The last user closes the sockets.
func (p *localPort) release() {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	delete(p.ports.ports, p.local.Addr())
	p.ports.droppedBefore += p.dropped()
	for _, m := range p.members {
		_ = unix.Close(m.fd)
	}
	_ = unix.Close(p.gsi)
}

// Overruns returns how many datagrams the system has dropped at sockets of the device
// before they were read, including sockets that are closed.
func (ps *Ports) Overruns() uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	sum := ps.droppedBefore
	for _, p := range ps.ports {
		sum += p.dropped()
	}
	return sum
}

// dropped returns how many datagrams the system has dropped at the sockets of the port.
func (p *localPort) dropped() uint64 {
	sum := droppedAt(p.gsi)
	for _, m := range p.members {
		sum += droppedAt(m.fd)
	}
	return sum
}

// Addrs returns the local addresses that are open, in order.
func (ps *Ports) Addrs() []netip.Addr {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var addrs []netip.Addr
	for a := range ps.ports {
		addrs = append(addrs, a)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

// join returns the sockets of a shard. It opens one if the shard has none. The port
// owns the sockets; their packets belong to the shard.
func (p *localPort) join(slot uint32) ([]int, error) {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	if fds := p.socketsOf(slot); len(fds) > 0 {
		return fds, nil
	}
	err := p.add(slot, 1)
	return p.socketsOf(slot), err
}

// widen opens up to n further sockets for a shard, over which its queue pairs are
// distributed: as many as can be opened and the address has places for. A place is kept
// for the first socket of each slot, so that shards that come later can join. It returns
// all sockets of the shard.
func (p *localPort) widen(slot uint32, n int) []int {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	if n = min(n, p.freePlaces()); n > 0 {
		_ = p.add(slot, n) // on failure the shard goes on with the sockets that it has
	}
	return p.socketsOf(slot)
}

// freePlaces returns how many sockets may be added besides the first one of each slot.
// The caller holds the mutex.
func (p *localPort) freePlaces() int {
	absent := int(p.ports.slots)
	seen := make(map[uint32]bool)
	for _, m := range p.members {
		if !seen[m.slot] {
			seen[m.slot] = true
			absent--
		}
	}
	return maxMembers - len(p.members) - absent
}

// socketsOf returns the sockets of a shard. The caller holds the mutex.
func (p *localPort) socketsOf(slot uint32) (fds []int) {
	for _, m := range p.members {
		if m.slot == slot {
			fds = append(fds, m.fd)
		}
	}
	return fds
}

// add opens up to n sockets for a shard, and makes the system steer packets to them. It
// returns an error if it adds none. The caller holds the mutex.
func (p *localPort) add(slot uint32, n int) error {
	had := len(p.members)
	members, err := p.openMembers(slot, n)
	if len(members) == had {
		return err
	}
	if err := attachFilter(p.gsi, unix.SO_ATTACH_REUSEPORT_CBPF, steer(members, p.ports.slots)); err != nil {
		closeMembers(members[had:])
		return err
	}
	p.members = members
	return nil
}

// openMembers returns the members of the port and up to n new ones for a shard. The error
// says why there are fewer. If descriptors run out, half of the new sockets are closed
// again, because the program and new connections need descriptors, too.
func (p *localPort) openMembers(slot uint32, n int) (members []member, err error) {
	members = slices.Clone(p.members)
	for range n {
		if len(members) >= maxMembers {
			return members, errTooManySockets
		}
		fd, err := openSocket(p.local, socketOptions{joining: true, farOnly: p.ports.farOnly})
		if resource.NoDescriptors(err) {
			kept := len(members) - (len(members)-len(p.members)+1)/2
			closeMembers(members[kept:])
			return members[:kept], err
		}
		if err != nil {
			return members, err
		}
		members = append(members, member{slot, fd})
	}
	return members, nil
}

// closeMembers closes the sockets that have joined last. The last one is closed first, so
// that the system renumbers none of the others.
func closeMembers(members []member) {
	for _, m := range slices.Backward(members) {
		_ = unix.Close(m.fd)
	}
}
