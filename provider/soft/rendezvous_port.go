//go:build linux

package soft

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A reservation is a bound socket: its name reserves the spot until it is
// closed, against every process of the network namespace.
type reservation struct {
	spot spot
	fd   int // -1: the spot is not reserved (REUSEADDR), or the socket was handed on
}

func (r *reservation) close() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd = -1
	}
}

// reserve binds a socket to the address, which is of this host; port 0 means any
// free one. With reuse the spot is only looked at: it has to be free, and stays so
// for others.
func (d *device) reserve(ps cm.PortSpace, at netip.AddrPort, afOnly, reuse bool) (reservation, error) {
	s := newSpot(ps, at, afOnly)
	if s.port == 0 {
		ports, err := d.freePorts()
		if err != nil {
			return reservation{}, err
		}
		return s.reserveAny(ports)
	}
	if s.port < firstUserPort && !mayBindLow() {
		return reservation{}, unix.EACCES
	}
	if reuse {
		return reservation{s, -1}, s.checkClash("")
	}
	return s.reserve()
}

// reserve binds first and looks for clashes then: of two who race, at most one
// succeeds.
func (s spot) reserve() (reservation, error) {
	fd, err := bindSocket(s.name())
	switch {
	case errors.Is(err, unix.EADDRINUSE) && s.wildcard():
		return reservation{}, cm.ErrAddrNotAvailable
	case errors.Is(err, unix.EADDRINUSE):
		return reservation{}, cm.ErrAddrInUse
	case err != nil:
		return reservation{}, err
	}
	if err := s.checkClash(s.name()); err != nil {
		_ = unix.Close(fd)
		return reservation{}, err
	}
	return reservation{s, fd}, nil
}

// reserveAny takes a port of a range that nobody has on this address. A wildcard
// on the same port is no clash then: it takes no request from the closer spot, on
// which nobody listens.
func (s spot) reserveAny(ports portRange) (reservation, error) {
	n := ports.high - ports.low + 1
	for i, start := 0, rand.IntN(n); i < n; i++ {
		s.port = uint16(ports.low + (start+i)%n)
		fd, err := bindSocket(s.name())
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		return reservation{s, fd}, err
	}
	return reservation{}, cm.ErrAddrNotAvailable
}

// checkClash looks for other holders of an overlapping spot, own aside. The
// errors are those of rdma_bind_addr(3): in use for the same address, not
// available where either is a wildcard.
func (s spot) checkClash(own string) error {
	others, err := boundAddrs(s.ps, s.port)
	if err != nil {
		return err
	}
	for _, o := range others {
		switch {
		case o.name() == own || !s.overlaps(o):
		case s.wildcard() || o.wildcard():
			return cm.ErrAddrNotAvailable
		default:
			return cm.ErrAddrInUse
		}
	}
	return nil
}

// boundAddrs returns the spots of a port that are bound in this network
// namespace, by whatever process.
func boundAddrs(ps cm.PortSpace, port uint16) ([]spot, error) {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return scanBound(f, ps, port, nameIsBound)
}

// connectedState is SS_CONNECTED in the state column of /proc/net/unix.
const connectedState = "03"

// scanBound reads the table of /proc/net/unix:
//
//	Num RefCount Protocol Flags Type St Inode Path
//
// A connected socket shows the name that its listener had, which may be gone:
// isBound tells.
func scanBound(table io.Reader, ps cm.PortSpace, port uint16, isBound func(name string) bool) ([]spot, error) {
	var found []spot
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 8 {
			continue
		}
		s, ok := parseSpot(ps, fields[7])
		if !ok || s.port != port {
			continue
		}
		if fields[5] != connectedState || isBound(s.name()) {
			found = append(found, s)
		}
	}
	return found, lines.Err()
}

// A portRange is from low to high.
type portRange struct{ low, high int }

// ephemeralPorts is the range that the system takes free ports from; see ip(7),
// ip_local_port_range. A device asks once.
func ephemeralPorts() (r portRange, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return r, err
	}
	if _, err := fmt.Sscan(string(b), &r.low, &r.high); err != nil {
		return r, err
	}
	if r.low < 1 || r.high > 65535 || r.low > r.high {
		return r, fmt.Errorf("port range %d to %d", r.low, r.high)
	}
	return r, nil
}
