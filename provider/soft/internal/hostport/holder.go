//go:build linux

package hostport

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A clashError says that another socket has bound the address in the field held. If the
// search for a free port returns the error, the socket may have bound another address
// that overlaps held.
type clashError struct {
	err  error // cm.ErrAddrInUse or cm.ErrAddrNotAvailable
	held BindAddr
}

func (e *clashError) Error() string { return e.err.Error() + ": " + e.held.Name() }
func (e *clashError) Unwrap() error { return e.err }

// ExplainClash replaces a clashError by a *cm.HolderError, which names the holder's
// user. It returns any other error as it is.
func ExplainClash(err error) error {
	var clash *clashError
	if !errors.As(err, &clash) {
		return err
	}
	holder := &cm.HolderError{Err: clash.err, Name: clash.held.Name()}
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
