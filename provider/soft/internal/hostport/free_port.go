//go:build linux

package hostport

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A process of any user can hold as many names as it has descriptors. So the search
// for a free port gives up after a bounded number of ports: it runs on the loop of
// the caller, which must not be delayed for long.
const (
	// maxPortTries bounds the search for a port on one address, as each client needs one.
	// With 99 of 100 ports taken, 3 of 100,000 searches fail. One try takes 2 to 30
	// microseconds, depending on the number of Unix sockets.
	maxPortTries = 1024
	// maxWildcardTries bounds the search for a port on a wildcard. Each try may read the
	// table of all Unix sockets, which takes milliseconds when there are thousands. With
	// 9 of 10 ports taken, 1 of 1,000 searches fails.
	maxWildcardTries = 64
)

// reserveAny reserves a free port of a range. A port is free if no socket has it on this
// address, or on a wildcard that covers the address. If the search finds no free port,
// the error is cm.ErrAddrNotAvailable.
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
	for s.Port = range ports.some(maxWildcardTries) {
		if r, err = s.reserve(mayNotShare); !isClash(err) {
			break
		}
	}
	return r, err
}

// reserveAnyOnAddress looks for the markers of wildcards instead of reading the table
// of all sockets, which is long when there are many connections. It may choose a port
// that other IDs share on the same address; such IDs do not listen.
func (s BindAddr) reserveAnyOnAddress(ports PortRange) (Reservation, error) {
	r, err := NoReservation(), error(cm.ErrAddrNotAvailable)
	for s.Port = range ports.some(maxPortTries) {
		if err = s.tryFree(&r); !isClash(err) {
			break
		}
	}
	if err != nil {
		r.Close()
	}
	return r, err
}

// tryFree reserves s if its port is free. s is no wildcard. The socket in r was made by
// an earlier try or is made by this one; if it was not bound, the next try uses it
// again.
func (s BindAddr) tryFree(r *Reservation) (err error) {
	if r.FD < 0 {
		if r.FD, err = unixsock.New(); err != nil {
			return err
		}
	}
	r.Addr = s
	err = unix.Bind(r.FD, &unix.SockaddrUnix{Name: s.Name()})
	if errors.Is(err, unix.EADDRINUSE) {
		return &clashError{cm.ErrAddrNotAvailable, s}
	}
	if err != nil {
		return err
	}
	held, err := anyMarker(s.wildcards())
	if held && err == nil {
		r.Close()
		err = &clashError{cm.ErrAddrNotAvailable, s}
	}
	return err
}

// A PortRange is the ports from low to high, both included.
type PortRange struct{ Low, High int }

// EphemeralPorts returns the range from which the system takes free ports; see ip(7),
// ip_local_port_range. A device reads it once.
func EphemeralPorts() (r PortRange, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return r, err
	}
	if _, err := fmt.Sscan(string(b), &r.Low, &r.High); err != nil {
		return r, err
	}
	if r.Low < 1 || r.High > 65535 || r.Low > r.High {
		return r, fmt.Errorf("port range %d to %d", r.Low, r.High)
	}
	return r, nil
}

// some returns at most limit different ports of the range, in an unpredictable order.
func (r PortRange) some(limit int) iter.Seq[uint16] {
	n := r.High - r.Low + 1
	start, step := rand.IntN(n), 1+rand.IntN(n)
	// If the step and the number of ports had a common divisor, the loop would not reach
	// all ports.
	for gcd(step, n) != 1 {
		step = 1 + rand.IntN(n)
	}
	return func(yield func(uint16) bool) {
		for i := range min(n, limit) {
			if !yield(uint16(r.Low + (start+i*step)%n)) {
				return
			}
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
