//go:build linux

package soft

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A clashError says that an address is taken by a socket with the spot held. When it
// comes from the search for a free port, the socket may have another spot that
// overlaps held.
type clashError struct {
	err  error // cm.ErrAddrInUse or cm.ErrAddrNotAvailable
	held bindAddr
}

func (e *clashError) Error() string { return e.err.Error() + ": " + e.held.name() }
func (e *clashError) Unwrap() error { return e.err }

// explainClash replaces a clashError by a *cm.HolderError, which names the holder's
// user. It returns any other error as it is.
func explainClash(err error) error {
	var clash *clashError
	if !errors.As(err, &clash) {
		return err
	}
	holder := &cm.HolderError{Err: clash.err, Name: clash.held.name()}
	holder.UID, holder.Known = holderUser(holder.Name)
	return holder
}

// holderUser returns the user of the socket with a name. If the kernel has no
// unix_diag, it still finds the user of a socket that listens.
func holderUser(name string) (uid uint32, known bool) {
	for _, kind := range []byte{unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
		if uid, known = unixsock.User(name, kind); known {
			return uid, true
		}
	}
	uid, err := unixsock.ListenerUser(name)
	return uid, err == nil
}
