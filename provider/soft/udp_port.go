//go:build linux

package soft

import (
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// udpPorts are the local addresses that a device speaks RoCEv2 on. Its methods
// may be called from any goroutine.
type udpPorts struct {
	udpPort uint16
	slots   uint32   // of shards; see shardKey.slot
	counts  counters // of connection management

	mu      sync.Mutex
	ports   map[netip.Addr]*udpPort
	overran uint64 // datagrams that were dropped at sockets that are closed
}

// A udpPort is one local address: a socket for connection management, and one
// for each shard that has queue pairs there. They share the UDP port, and a
// program chooses among them by the destination queue pair. The mutex of
// udpPorts covers it.
//
// The sockets stay until the last user goes: the system renumbers those that are
// left when one is closed, and packets would end up with the wrong shard.
type udpPort struct {
	all   *udpPorts
	local netip.AddrPort
	users int
	mads  int      // the socket of connection management, which came first
	slots []uint32 // of the shards that have a socket, in order of joining
	fds   []int
}

// acquire opens the port of an address, or adds a user to it. The address is one
// of this host.
func (all *udpPorts) acquire(local netip.Addr) (*udpPort, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if p := all.ports[local]; p != nil {
		p.users++
		return p, nil
	}
	p := &udpPort{all: all, local: netip.AddrPortFrom(local, all.udpPort), users: 1}
	var err error
	if p.mads, err = openUDP(p.local, false); err != nil {
		return nil, err
	}
	// From now on it lets the others in. They are ours only: everybody's first
	// socket asks to be alone.
	if err := unix.SetsockoptInt(p.mads, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		_ = unix.Close(p.mads)
		return nil, err
	}
	all.ports[local] = p
	return p, nil
}

// release undoes acquire. The last one closes the sockets.
func (p *udpPort) release() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	delete(p.all.ports, p.local.Addr())
	p.all.overran += p.overruns()
	closeAll(p.fds)
	_ = unix.Close(p.mads)
}

// overruns is how many datagrams the system has dropped before they could be read.
func (all *udpPorts) overruns() uint64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	sum := all.overran
	for _, p := range all.ports {
		sum += p.overruns()
	}
	return sum
}

func (p *udpPort) overruns() uint64 {
	sum := droppedAt(p.mads)
	for _, fd := range p.fds {
		sum += droppedAt(fd)
	}
	return sum
}

// taken reports whether this device or anybody else has the UDP port of an
// address.
func (all *udpPorts) taken(local netip.Addr) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.ports[local] != nil {
		return true
	}
	fd, err := openUDP(netip.AddrPortFrom(local, all.udpPort), false)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err != nil
}

// addrs are the addresses in use.
func (all *udpPorts) addrs() []netip.Addr {
	all.mu.Lock()
	defer all.mu.Unlock()
	var addrs []netip.Addr
	for a := range all.ports {
		addrs = append(addrs, a)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

// join returns the socket of a shard. It belongs to the port, and what comes to
// it is the shard's.
func (p *udpPort) join(slot uint32) (int, error) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if i := slices.Index(p.slots, slot); i >= 0 {
		return p.fds[i], nil
	}
	if len(p.fds) >= maxMembers {
		return -1, errTooManyShards
	}
	fd, err := openUDP(p.local, true)
	if err != nil {
		return -1, err
	}
	slots := append(p.slots, slot)
	if err := attachFilter(fd, unix.SO_ATTACH_REUSEPORT_CBPF, steer(slots, p.all.slots)); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	p.slots, p.fds = slots, append(p.fds, fd)
	return fd, nil
}
