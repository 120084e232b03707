//go:build linux

package hostport

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Reservation is a socket that is bound to the name of an address and port. No other
// process can bind the name. A wildcard has a second socket, the marker.
type Reservation struct {
	Addr BindAddr
	FD   int // descriptor of the bound socket; -1 if the Reservation owns none, as after Take
	// Descriptor of the marker; see bindMarker. -1 if the Reservation has no marker.
	Marker int
}

// NoReservation returns a Reservation without sockets, for an ID without a port.
func NoReservation() Reservation { return Reservation{FD: -1, Marker: -1} }

// Take transfers the bound socket to the caller.
func (r *Reservation) Take() (fd int) {
	fd, r.FD = r.FD, -1
	return fd
}

// Close closes the sockets that the reservation owns.
func (r *Reservation) Close() {
	for _, fd := range []*int{&r.FD, &r.Marker} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// Reserve reserves a port at an address of this host. Port 0 means any port in the range
// from freePorts. If the parameter reuse is true, other reservations for which it is true
// may have the same port. Errors:
//
//   - The error of Clash: another socket has the port.
//   - EACCES: this process may not bind a port below 1024.
func Reserve(ps cm.PortSpace, at netip.AddrPort, afOnly, reuse bool, freePorts func() (PortRange, error)) (Reservation, error) {
	s := NewBindAddr(ps, at, afOnly)
	if s.Port == 0 {
		ports, err := freePorts()
		if err != nil {
			return NoReservation(), err
		}
		r, err := s.reserveAny(ports)
		if err == nil && reuse {
			if err = r.Share(); err != nil {
				r.Close()
			}
		}
		return r, err
	}
	if s.Port < firstUserPort && !mayBindLow() {
		return NoReservation(), unix.EACCES
	}
	if reuse {
		s.Shared = newShare()
	}
	return s.reserve(mayNotShare)
}

// newShare returns a random number, not 0, for an ID on a shared port.
func newShare() uint32 { return max(1, rand.Uint32()) }

// A sharing says whether a new unshared reservation may have a port that other IDs share.
type sharing bool

const (
	// mayNotShare makes the reservation fail if other IDs share the port
	// (rdma_bind_addr(3)).
	mayNotShare sharing = false
	// overShared makes the reservation of a listener succeed even if other IDs share the
	// port (rdma_listen(3)).
	overShared sharing = true
)

// reserve binds the name of s before it checks for clashes, so that two concurrent calls
// can not both succeed. Clashes with own addresses are ignored.
func (s BindAddr) reserve(with sharing, mine ...BindAddr) (Reservation, error) {
	r, err := s.bind()
	if err != nil {
		return r, err
	}
	if err := s.checkClash(with, append(mine, s)); err != nil {
		r.Close()
		return r, err
	}
	return r, nil
}

// bind binds the name of s, and the marker of a wildcard that is not shared.
func (s BindAddr) bind() (Reservation, error) {
	r := NoReservation()
	r.Addr = s
	var err error
	if r.FD, err = unixsock.Bind(s.Name()); err == nil && s.Wildcard() && s.Shared == 0 {
		r.Marker, err = bindMarker(s.Name())
	}
	if err == nil {
		return r, nil
	}
	r.Close()
	if errors.Is(err, unix.EADDRINUSE) {
		err = s.Clash(s)
	}
	return r, err
}

// Clash returns the error for binding s while o is bound: cm.ErrAddrInUse if they are
// equal, and cm.ErrAddrNotAvailable if one is a wildcard (rdma_bind_addr(3)).
func (s BindAddr) Clash(o BindAddr) error {
	if s.Wildcard() || o.Wildcard() {
		return &clashError{cm.ErrAddrNotAvailable, o}
	}
	return &clashError{cm.ErrAddrInUse, o}
}

func isClash(err error) bool {
	return errors.Is(err, cm.ErrAddrInUse) || errors.Is(err, cm.ErrAddrNotAvailable)
}

// change reserves the address target, which has the same port, instead of the present
// address. After an error the old reservation remains.
func (r *Reservation) change(target BindAddr) error {
	if r.FD < 0 {
		return &verbs.FeatureError{Feature: "option of a bound port", Reason: errPortInUse}
	}
	next, err := target.reserve(mayNotShare, r.Addr)
	if err != nil {
		return err
	}
	r.Close()
	*r = next
	return nil
}

var errPortInUse = errors.New("a connection on the local path has taken the port over")

// Share allows other IDs to bind the same address and port. It does nothing for the ID
// of a connection request.
func (r *Reservation) Share() error {
	if r.Addr.Port == 0 || r.Addr.Shared != 0 {
		return nil
	}
	to := r.Addr
	to.Shared = newShare()
	return r.change(to)
}

// Restrict sets whether the IPv6 wildcard refuses IPv4. It does nothing for other
// addresses.
func (r *Reservation) Restrict(afOnly bool) error {
	if r.Addr.Addr != netip.IPv6Unspecified() || r.Addr.v6Only == afOnly {
		return nil
	}
	to := r.Addr
	to.v6Only = afOnly
	return r.change(to)
}

// Claim replaces a shared reservation by one that is not shared, for an ID that begins
// to listen.
func (r *Reservation) Claim() error {
	if r.Addr.Shared == 0 {
		return nil
	}
	to := r.Addr
	to.Shared = 0
	next, err := to.reserve(overShared)
	if err != nil {
		return err
	}
	r.Close()
	*r = next
	return nil
}

// checkClash returns an error that names an overlapping bound address, preferably a
// wildcard. It ignores the caller's addresses.
func (s BindAddr) checkClash(with sharing, mine []BindAddr) error {
	others, err := boundAddrs(s.ps, s.Port)
	if err != nil {
		return err
	}
	var clash error
	for _, o := range others {
		both := s.Shared != 0 && o.Shared != 0 || with == overShared && o.Shared != 0
		if both || slices.Contains(mine, o) || !s.overlaps(o) {
			continue
		}
		if clash = s.Clash(o); o.Wildcard() {
			break
		}
	}
	return clash
}
