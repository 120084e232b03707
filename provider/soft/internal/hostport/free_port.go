//go:build linux

package hostport

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// Limits of the search for a free port. A long search would delay the caller's loop.
const (
	// maxPortTries is the largest number of ports that are tried for one address. Even
	// if 99 of 100 ports are occupied, only 3 of 100,000 searches fail. A try takes 2 to
	// 30 microseconds.
	maxPortTries = 1024
	// maxWildcardTries is the largest number of ports that are tried for a wildcard.
	// Even if 9 of 10 ports are occupied, only 1 of 1,000 searches fails. On a host with
	// thousands of Unix sockets, a try takes milliseconds.
	maxWildcardTries = 64
)

// reserveAny reserves a free port of a range. Free means that the address and the
// wildcards that cover it are not bound. If no port is free, the error matches
// cm.ErrAddrNotAvailable.
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
	for ports := ports.sample(s.host.random, maxWildcardTries); ports.next(); {
		s.Port = ports.port
		if r, err = s.reserve(mayNotShare); !isClash(err) {
			break
		}
	}
	return r, err
}

// reserveAnyOnAddress does what reserveAny does, for an address that is not a wildcard.
// It finds bound wildcards by their markers, because reading the table of all sockets
// takes longer.
func (s BindAddr) reserveAnyOnAddress(ports PortRange) (r Reservation, err error) {
	r, err = NoReservation(), cm.ErrAddrNotAvailable
	for ports := ports.sample(s.host.random, maxPortTries); ports.next(); {
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

// tryFree stores a reservation of s in r. The address s must not be a wildcard. If s is
// not free, the error is a clashError, and the caller can try another port with the same
// r.
func (s BindAddr) tryFree(r *Reservation) (err error) {
	if r.FD < 0 {
		if r.FD, err = unixsock.New(); err != nil {
			return err
		}
		s.host.Opened(r.FD)
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

// EphemeralPorts returns the range from which the kernel chooses free ports; see ip(7),
// ip_local_port_range. A simulated host has the kernel's default range.
func (h *Host) EphemeralPorts() (r PortRange, err error) {
	if h.sim != nil {
		return PortRange{Low: 32768, High: 60999}, nil
	}
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

// sample returns different ports of the range in random order, at most as many as the
// parameter limit says.
func (r PortRange) sample(from random.Source, limit int) portSample {
	n := r.High - r.Low + 1
	p := portSample{ports: r, at: from.IntN(n), step: 1 + from.IntN(n), left: min(n, limit)}
	// The steps reach all n ports only if the step and n have no common divisor.
	for gcd(p.step, n) != 1 {
		p.step = 1 + from.IntN(n)
	}
	return p
}

// A portSample iterates over randomly chosen ports of a range.
type portSample struct {
	port  uint16 // port that next() has reached; valid if next() has returned true
	ports PortRange
	at    int // offset of the next port from PortRange.Low
	step  int // distance between two ports
	left  int // number of ports that next() has not reached yet
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
