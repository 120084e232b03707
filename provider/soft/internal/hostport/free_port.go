//go:build linux

package hostport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// Limits of the search for a free port. A long search would delay the caller's loop.
const (
	// maxPortTries is for the search on one address. If 99 of 100 ports are occupied, 3
	// of 100,000 searches fail. A try takes 2 to 30 microseconds.
	maxPortTries = 1024
	// maxWildcardTries is for the search on a wildcard. If 9 of 10 ports are occupied, 1
	// of 1,000 searches fails. With thousands of Unix sockets, a try takes milliseconds.
	maxWildcardTries = 64
)

// reserveAny reserves a free port of a range, on this address and the wildcards that
// cover it. The error is cm.ErrAddrNotAvailable if no port is free.
func (s BindAddr) reserveAny(ports PortRange) (Reservation, error) {
	var r Reservation
	var err error
	if s.Wildcard() {
		r, err = s.reserveAnyOnWildcard(ports)
	} else {
		r, err = s.reserveAnyOnAddress(ports)
	}
	if isClash(err) {
		err = fmt.Errorf("no free port found from %d to %d: %w", ports.Low, ports.High, ExplainClash(err))
	}
	return r, err
}

func (s BindAddr) reserveAnyOnWildcard(ports PortRange) (Reservation, error) {
	r, err := NoReservation(), error(cm.ErrAddrNotAvailable)
	for ports := ports.sample(maxWildcardTries); ports.next(); {
		s.Port = ports.port
		if r, err = s.reserve(mayNotShare); !isClash(err) {
			break
		}
	}
	return r, err
}

// reserveAnyOnAddress is reserveAny for an address that is not a wildcard. It looks for
// the markers of wildcards, because reading the table of all sockets would take longer.
func (s BindAddr) reserveAnyOnAddress(ports PortRange) (r Reservation, err error) {
	r, err = NoReservation(), cm.ErrAddrNotAvailable
	for ports := ports.sample(maxPortTries); ports.next(); {
		s.Port = ports.port
		if err = s.tryFree(&r); !isClash(err) {
			break
		}
	}
	if err != nil {
		r.Close()
	}
	return r, err
}

// tryFree reserves s, which is not a wildcard, or returns a clashError. An unbound
// socket stays in r for the next call.
func (s BindAddr) tryFree(r *Reservation) (err error) {
	if r.FD < 0 {
		if r.FD, err = unixsock.New(); err != nil {
			return err
		}
	}
	r.Addr = s
	err = unixsock.BindTo(r.FD, s.Name())
	if errors.Is(err, unix.EADDRINUSE) {
		return &clashError{cm.ErrAddrNotAvailable, s}
	}
	if err != nil {
		return err
	}
	wildcard, found, err := findMarker(s.wildcards())
	if found {
		r.Close()
		err = &clashError{cm.ErrAddrNotAvailable, wildcard}
	}
	return err
}

// A PortRange has the ports from Low to High, including both.
type PortRange struct{ Low, High int }

// EphemeralPorts returns the range from which the kernel chooses free ports (ip(7),
// ip_local_port_range). A device calls it once.
func EphemeralPorts() (r PortRange, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return r, err
	}
	if _, err := fmt.Sscan(string(b), &r.Low, &r.High); err != nil {
		return r, err
	}
	if r.Low < 1 || r.High > 65535 || r.Low > r.High {
		return r, fmt.Errorf("invalid port range %d to %d", r.Low, r.High)
	}
	return r, nil
}

// sample returns different ports of the range in an unpredictable order. The parameter
// limit is the largest number of ports.
func (r PortRange) sample(limit int) portSample {
	n := r.High - r.Low + 1
	p := portSample{ports: r, at: rand.IntN(n), step: 1 + rand.IntN(n), left: min(n, limit)}
	// The step reaches all ports only if it has no common divisor with their number.
	for gcd(p.step, n) != 1 {
		p.step = 1 + rand.IntN(n)
	}
	return p
}

// A portSample is the result of PortRange.sample. The method next moves to the next port.
type portSample struct {
	port  uint16 // present port; valid after next() has returned true
	ports PortRange
	at    int // next port, as a number from PortRange.Low on
	step  int // distance between two ports
	left  int // number of ports that next has not reached yet
}

// next moves to the next port, and returns false if there is none.
func (p *portSample) next() bool {
	if p.left == 0 {
		return false
	}
	p.left--
	p.port = uint16(p.ports.Low + p.at)
	p.at = (p.at + p.step) % (p.ports.High - p.ports.Low + 1)
	return true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
