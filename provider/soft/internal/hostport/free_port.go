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

// Limits of the search for a free port. A process of any user can bind as many names as
// it may have descriptors, and so occupy many ports. The search runs on the loop of the
// caller, which must not be delayed for long, so it ends after a limited number of ports.
const (
	// maxPortTries is the largest number of ports that the search on one address tries.
	// Each client needs such a port. If 99 of 100 ports are occupied, 3 of 100,000
	// searches fail. One try takes 2 to 30 microseconds, depending on the number of Unix
	// sockets.
	maxPortTries = 1024
	// maxWildcardTries is the largest number of ports that the search on a wildcard
	// tries. Each try may read the table of all Unix sockets, which takes milliseconds if
	// there are thousands of sockets. If 9 of 10 ports are occupied, 1 of 1,000 searches
	// fails.
	maxWildcardTries = 64
)

// reserveAny reserves a free port of a range. A port is free if no socket has bound it on
// this address, or on a wildcard that covers the address. If reserveAny finds no free
// port, the error is cm.ErrAddrNotAvailable.
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
	for s.Port = range ports.sample(maxWildcardTries) {
		if r, err = s.reserve(mayNotShare); !isClash(err) {
			break
		}
	}
	return r, err
}

// reserveAnyOnAddress does the same as reserveAny for an address that is not a wildcard.
// It tries to bind one port after another. To find out whether a wildcard has the same
// port, it looks for the marker of the wildcard; reading the table of all sockets instead
// would take long if there are many connections. The search does not notice IDs that
// share a port on the same address (REUSEADDR), so it may choose their port. That does no
// harm: a port that IDs share has no listener.
func (s BindAddr) reserveAnyOnAddress(ports PortRange) (Reservation, error) {
	r, err := NoReservation(), error(cm.ErrAddrNotAvailable)
	for s.Port = range ports.sample(maxPortTries) {
		if err = s.tryFree(&r); !isClash(err) {
			break
		}
	}
	if err != nil {
		r.Close()
	}
	return r, err
}

// tryFree reserves s if its port is free, and otherwise returns a clashError. The
// address of s must not be a wildcard. If r has no socket yet, tryFree makes one and
// stores it in r. If the socket can not be bound because another socket has the same
// name, it stays in r, so that the next call can use it.
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
// ip_local_port_range. A device calls it once.
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

// sample returns different ports of the range in an unpredictable order. It returns at
// most limit ports.
func (r PortRange) sample(limit int) iter.Seq[uint16] {
	n := r.High - r.Low + 1
	start, step := rand.IntN(n), 1+rand.IntN(n)
	// The loop below reaches all ports only if the step and the number of ports have no
	// common divisor.
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
