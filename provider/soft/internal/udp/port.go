//go:build linux

package udp

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
)

var (
	errTooManySockets = errors.New("too many sockets on one address")
	errSeveralShards  = errors.New("several shards use the address")
)

// A Ports has the sockets of a device, for all its local addresses. Any goroutine may
// call its methods.
type Ports struct {
	// Tap records the packets of the sockets of connection management. It is a shared one, and
	// is set before a socket is opened. It may be nil.
	Tap *capture.Tap

	udpPort uint16
	slots   uint32 // number of slots; each shard uses one
	farOnly bool   // true if the sockets drop packets of this host

	mu            sync.Mutex
	ports         map[netip.Addr]*localPort
	droppedBefore uint64 // datagrams that the kernel dropped at sockets that are closed now
}

// A localPort has the sockets of one local address. All of them have the same UDP port.
// For each packet, a BPF program selects a socket by the destination queue pair. The
// mutex of Ports protects a localPort.
//
// The BPF program uses the kernel's numbers of the sockets. When a socket is closed, the
// kernel renumbers the others. So all sockets stay open while the localPort has users.
type localPort struct {
	ports *Ports
	local netip.AddrPort
	users int
	gsi   int // socket of connection management; always opened before other sockets
	// members has the sockets of shards, in the order in which they joined.
	members []member
	// direct is the direct socket, if hasDirect is true; see directSocket.
	direct    int
	hasDirect bool
	// directEnded is true if another socket has replaced the direct socket.
	directEnded atomic.Bool
	late        []lateDatagram // datagrams of the replaced direct socket
}

// A member is one socket of a shard.
type member struct {
	slot uint32
	fd   int
}

// NewPorts returns the Ports of a device, without open sockets. The parameter slots is
// the largest number of shards. If the parameter farOnly is true, the sockets drop
// packets of this host.
func NewPorts(udpPort uint16, slots uint32, farOnly bool) *Ports {
	return &Ports{udpPort: udpPort, slots: slots, farOnly: farOnly, ports: make(map[netip.Addr]*localPort)}
}

// acquire returns the localPort of a local address, and adds one user to it. For the
// first user it opens the socket of connection management.
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
	// The socket was bound without SO_REUSEPORT, so no other device has the port. It gets
	// the option now, because other sockets of this device can bind the same port only if
	// all sockets of the port have the option.
	if err := unix.SetsockoptInt(p.gsi, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		_ = unix.Close(p.gsi)
		return nil, err
	}
	ps.ports[local] = p
	return p, nil
}

// release removes one user. For the last user it closes the sockets.
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

// Overruns returns how many datagrams the kernel has dropped at the sockets of the
// device. It also counts sockets that are closed now.
func (ps *Ports) Overruns() uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	sum := ps.droppedBefore
	for _, p := range ps.ports {
		sum += p.dropped()
	}
	return sum
}

// dropped returns how many datagrams the kernel has dropped at the open sockets.
func (p *localPort) dropped() uint64 {
	sum := droppedAt(p.gsi)
	for _, m := range p.members {
		sum += droppedAt(m.fd)
	}
	if p.hasDirect {
		sum += droppedAt(p.direct)
	}
	return sum
}

// Addrs returns the local addresses with open sockets, in ascending order.
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

// join returns the descriptors of the shard's sockets. If the shard has no socket, join
// opens one. The localPort owns the descriptors.
func (p *localPort) join(slot uint32) ([]int, error) {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	if fds := p.socketsOf(slot); len(fds) > 0 {
		return fds, nil
	}
	err := p.add(slot, 1)
	return p.socketsOf(slot), err
}

// widen opens up to n more sockets for a shard. It returns the descriptors of all
// sockets of the shard.
func (p *localPort) widen(slot uint32, n int) []int {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	if n = min(n, p.freePlaces()); n > 0 {
		// If add() fails, the shard continues with the sockets that it has.
		_ = p.add(slot, n)
	}
	return p.socketsOf(slot)
}

// freePlaces returns how many overflow sockets may still be opened. It leaves room for
// each shard that has no socket yet. The caller holds the mutex.
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

// add opens up to n sockets for a shard, or returns an error if no socket can be opened.
// The caller holds the mutex.
func (p *localPort) add(slot uint32, n int) error {
	if err := p.replaceDirect(); err != nil {
		return err
	}
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

// openMembers opens n sockets for a shard, or fewer after an error. It returns all
// members. If no descriptor is free, it closes half of the new sockets, so that some
// descriptors are free.
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

// closeMembers closes the given sockets. They must be the newest members of the port.
// The newest is closed first, so that the kernel renumbers no other socket.
func closeMembers(members []member) {
	for _, m := range slices.Backward(members) {
		_ = unix.Close(m.fd)
	}
}

// openDirect opens a direct socket, connected to the address source. The localPort must
// have the sockets of only one shard. The caller must call closeDirect.
//
// The kernel has a group of all sockets with this address and port (SO_REUSEPORT,
// socket(7)). The direct socket is the newest socket of the group, so it does not change
// the numbers of the other sockets. Linux 6.18 removes the direct socket from the group
// when it is connected. Older kernels do not.
func (p *localPort) openDirect(source netip.AddrPort) (int, error) {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	for _, m := range p.members {
		if m.slot != p.members[0].slot {
			return -1, errSeveralShards
		}
	}
	fd, err := openSocket(p.local, socketOptions{joining: true, farOnly: p.ports.farOnly})
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, hostport.Sockaddr(source.Addr(), int(source.Port()))); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	p.direct, p.hasDirect = fd, true
	return fd, nil
}

// replaceDirect ends the direct socket before other sockets are opened. Otherwise the
// direct socket could change the kernel's numbers of the new sockets. The shard may be
// reading from the descriptor of the direct socket. So this descriptor gets another
// socket, which receives nothing. The datagrams that wait in the direct socket are kept
// for the shard. The caller holds the mutex.
func (p *localPort) replaceDirect() error {
	if !p.hasDirect || p.directEnded.Load() {
		return nil
	}
	empty, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(empty)
	replaced, err := unix.FcntlInt(uintptr(p.direct), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(replaced)
	if err := unix.Dup3(empty, p.direct, unix.O_CLOEXEC); err != nil {
		return err
	}
	p.late = receiveLate(replaced, p.local.Addr())
	p.ports.droppedBefore += droppedAt(replaced)
	p.directEnded.Store(true)
	return nil
}

// closeDirect closes the direct socket. If another goroutine has replaced the socket,
// closeDirect returns the datagrams that waited in the replaced socket.
func (p *localPort) closeDirect() (late []lateDatagram) {
	p.ports.mu.Lock()
	defer p.ports.mu.Unlock()
	if !p.directEnded.Load() {
		p.ports.droppedBefore += droppedAt(p.direct)
	}
	_ = unix.Close(p.direct)
	late, p.late = p.late, nil
	p.hasDirect = false
	p.directEnded.Store(false)
	return late
}
