//go:build linux

package soft

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

// A reservation is a bound socket. Its name reserves the spot until it is closed,
// against every process of the network namespace. The reservation of a wildcard has a
// marker in addition.
type reservation struct {
	addr   bindAddr
	fd     int // the bound socket; -1 if there is none, or if the carrier owns it
	marker int // the marker's socket, see bindMarker; -1 if there is none
}

// noReservation returns the reservation of an ID without a port.
func noReservation() reservation { return reservation{fd: -1, marker: -1} }

// take transfers the socket to the caller.
func (r *reservation) take() (fd int) {
	fd, r.fd = r.fd, -1
	return fd
}

func (r *reservation) close() {
	for _, fd := range []*int{&r.fd, &r.marker} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// reserve binds a socket to the address, which must be of this host; port 0 means any
// free port. With reuse the spot is shared with other reservations that have reuse.
func reserve(ps cm.PortSpace, at netip.AddrPort, afOnly, reuse bool, freePorts func() (portRange, error)) (reservation, error) {
	s := newBindAddr(ps, at, afOnly)
	if s.port == 0 {
		ports, err := freePorts()
		if err != nil {
			return noReservation(), err
		}
		r, err := s.reserveAny(ports)
		if err == nil && reuse {
			if err = r.share(); err != nil {
				r.close()
			}
		}
		return r, err
	}
	if s.port < firstUserPort && !mayBindLow() {
		return noReservation(), unix.EACCES
	}
	if reuse {
		s.shared = newShare()
	}
	return s.reserve(mayNotShare)
}

// newShare returns the number of a spot to be shared.
func newShare() uint32 { return max(1, rand.Uint32()) }

// sharing says whether a spot that is not shared clashes with shared spots.
type sharing bool

const (
	// mayNotShare: the spots clash (rdma_bind_addr(3)).
	mayNotShare sharing = false
	// overShared: the spots do not clash, because the IDs of shared spots do not listen
	// (rdma_listen(3)).
	overShared sharing = true
)

// reserve binds the names of the spot and then looks for clashes, so that at most one
// of two concurrent calls succeeds. It ignores the spots in mine, which the caller is
// about to give up.
func (s bindAddr) reserve(with sharing, mine ...bindAddr) (reservation, error) {
	r, err := s.bind()
	if err != nil {
		return r, err
	}
	if err := s.checkClash(with, append(mine, s)); err != nil {
		r.close()
		return r, err
	}
	return r, nil
}

// bind binds the names of a spot.
func (s bindAddr) bind() (reservation, error) {
	r := noReservation()
	r.addr = s
	var err error
	if r.fd, err = unixsock.Bind(s.name()); err == nil && s.wildcard() && s.shared == 0 {
		r.marker, err = bindMarker(s.name())
	}
	if err == nil {
		return r, nil
	}
	r.close()
	if errors.Is(err, unix.EADDRINUSE) {
		err = s.clash(s)
	}
	return r, err
}

// clash returns the error of two overlapping spots. As in rdma_bind_addr(3), the
// address is in use if both are the same, and not available if either is a wildcard.
func (s bindAddr) clash(o bindAddr) error {
	if s.wildcard() || o.wildcard() {
		return &clashError{cm.ErrAddrNotAvailable, o}
	}
	return &clashError{cm.ErrAddrInUse, o}
}

func isClash(err error) bool {
	return errors.Is(err, cm.ErrAddrInUse) || errors.Is(err, cm.ErrAddrNotAvailable)
}

// change replaces a reservation by one of another spot on the same port.
func (r *reservation) change(to bindAddr) error {
	if r.fd < 0 {
		return &verbs.FeatureError{Feature: "option of a bound port", Reason: errPortInUse}
	}
	next, err := to.reserve(mayNotShare, r.addr)
	if err != nil {
		return err
	}
	r.close()
	*r = next
	return nil
}

var errPortInUse = errors.New("a connection on the local path has taken the port over")

// share allows other IDs to bind the spot too. It does nothing for an ID that was
// made for a request, which has no port of its own.
func (r *reservation) share() error {
	if r.addr.port == 0 || r.addr.shared != 0 {
		return nil
	}
	to := r.addr
	to.shared = newShare()
	return r.change(to)
}

// restrict sets whether the IPv6 wildcard takes IPv6 only. It does nothing for other
// spots.
func (r *reservation) restrict(afOnly bool) error {
	if r.addr.addr != netip.IPv6Unspecified() || r.addr.v6Only == afOnly {
		return nil
	}
	to := r.addr
	to.v6Only = afOnly
	return r.change(to)
}

// claim replaces a shared spot by one that is not shared, for a listener.
func (r *reservation) claim() error {
	if r.addr.shared == 0 {
		return nil
	}
	to := r.addr
	to.shared = 0
	next, err := to.reserve(overShared)
	if err != nil {
		return err
	}
	r.close()
	*r = next
	return nil
}

// checkClash returns an error if another socket holds an overlapping spot that is not
// in mine. The system lists sockets in no order. A wildcard takes precedence, so that
// the same situation always has the same error.
func (s bindAddr) checkClash(with sharing, mine []bindAddr) error {
	others, err := boundAddrs(s.ps, s.port)
	if err != nil {
		return err
	}
	var clash error
	for _, o := range others {
		both := s.shared != 0 && o.shared != 0 || with == overShared && o.shared != 0
		if both || slices.Contains(mine, o) || !s.overlaps(o) {
			continue
		}
		if clash = s.clash(o); o.wildcard() {
			break
		}
	}
	return clash
}
