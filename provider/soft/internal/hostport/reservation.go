//go:build linux

package hostport

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Reservation keeps an address and port for an ID. Each address and port has a name;
// see BindAddr. The Reservation has a socket that is bound to this name, so no other
// process can bind the name. A wildcard that is not shared needs a second socket, the
// marker.
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

// Reserve reserves a port at an address of this host. Port 0 means any free port of the
// range that freePorts returns. Reservations may share a port if the parameter reuse is
// true for all of them. Errors:
//
//   - The error of Clash: another socket has the port.
//   - EACCES: this process may not bind a port below 1024.
func (h *Host) Reserve(ps cm.PortSpace, at netip.AddrPort, afOnly, reuse bool, freePorts func() (PortRange, error)) (Reservation, error) {
	s := h.NewBindAddr(ps, at, afOnly)
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
	if s.Port < firstUserPort && !h.mayBindLow() {
		return NoReservation(), unix.EACCES
	}
	if reuse {
		s.Shared = h.newShare()
	}
	return s.reserve(mayNotShare)
}

// newShare returns a random value for BindAddr.Shared. It is never 0.
func (h *Host) newShare() uint32 { return max(1, h.random.Uint32()) }

// A sharing says whether a reservation succeeds on a port that other IDs share.
type sharing bool

const (
	// mayNotShare makes the reservation fail if other IDs share the port
	// (rdma_bind_addr(3)).
	mayNotShare sharing = false
	// overShared makes the reservation of a listener succeed even if other IDs share the
	// port (rdma_listen(3)).
	overShared sharing = true
)

// reserve reserves s. It ignores clashes with s itself and with the addresses in the
// parameter mine. It binds the name before it looks for clashes. So of two concurrent
// calls for overlapping addresses, at most one succeeds.
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
	s.host.Opened(r.FD)
	s.host.Opened(r.Marker)
	if err == nil {
		return r, nil
	}
	r.Close()
	if errors.Is(err, unix.EADDRINUSE) {
		err = s.Clash(s)
	}
	return r, err
}

// Clash returns the error for binding s while o is bound. The error matches
// cm.ErrAddrNotAvailable if s or o is a wildcard, and otherwise cm.ErrAddrInUse
// (rdma_bind_addr(3)).
func (s BindAddr) Clash(o BindAddr) error {
	if s.Wildcard() || o.Wildcard() {
		return &clashError{cm.ErrAddrNotAvailable, o}
	}
	return &clashError{cm.ErrAddrInUse, o}
}

func isClash(err error) bool {
	return errors.Is(err, cm.ErrAddrInUse) || errors.Is(err, cm.ErrAddrNotAvailable)
}

// change replaces the reserved address by another one with the same port. After an error
// the old reservation remains.
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
// of a connection request, which has no port.
func (r *Reservation) Share() error {
	if r.Addr.Port == 0 || r.Addr.Shared != 0 {
		return nil
	}
	to := r.Addr
	to.Shared = to.host.newShare()
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

// Claim makes a shared reservation unshared, for an ID that begins to listen. Other IDs
// may stay bound to the port.
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

// checkClash returns an error if a bound address overlaps with s. If several overlap, it
// prefers to report a wildcard. It ignores the addresses in the parameter mine.
func (s BindAddr) checkClash(with sharing, mine []BindAddr) error {
	others, err := s.host.boundAddrs(s.ps, s.Port)
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

// A clashError means that another socket has bound the same port at the same address or
// at an overlapping one.
type clashError struct {
	err  error    // cm.ErrAddrInUse or cm.ErrAddrNotAvailable
	held BindAddr // address to which the other socket is bound
}

func (e *clashError) Error() string { return e.err.Error() + ": " + e.held.Name() }
func (e *clashError) Unwrap() error { return e.err }

// ExplainClash explains why an address could not be bound: the text says which process and
// which user has bound it, as far as they are known. ExplainClash returns errors with another
// reason unchanged.
func ExplainClash(err error) error {
	var clash *clashError
	if !errors.As(err, &clash) {
		return err
	}
	at := netip.AddrPortFrom(clash.held.Addr, clash.held.Port)
	return fmt.Errorf("%w: %s %v (Unix socket %s)", clash.err, holder(clash.held.Name()), at, clash.held.Name())
}

// holder says which process listens on a name, or which user has bound it.
func holder(name string) string {
	peer, err := unixsock.Listener(name)
	switch {
	case err == nil && int(peer.PID) == os.Getpid():
		return "this process listens at"
	case err == nil && peer.PID != 0:
		return fmt.Sprintf("process %d of user %d listens at", peer.PID, peer.UID)
	case err == nil: // a process of another PID namespace
		return fmt.Sprintf("another process of user %d listens at", peer.UID)
	}
	for _, kind := range []byte{unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
		if uid, known := unixsock.User(name, kind); known {
			return fmt.Sprintf("a process of user %d has bound", uid)
		}
	}
	return "a process of an unknown user has bound" // The system has no unix_diag: see sock_diag(7).
}
