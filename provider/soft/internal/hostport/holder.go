//go:build linux

package hostport

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A clashError means that another socket has bound the same port at the same address or
// at an overlapping one.
type clashError struct {
	err  error    // cm.ErrAddrInUse or cm.ErrAddrNotAvailable
	held BindAddr // address to which the other socket is bound
}

func (e *clashError) Error() string { return e.err.Error() + ": " + e.held.Name() }
func (e *clashError) Unwrap() error { return e.err }

// ExplainClash explains why an address could not be bound. The *cm.HolderError says
// which user has bound it. ExplainClash returns errors with another reason unchanged.
func ExplainClash(err error) error {
	var clash *clashError
	if !errors.As(err, &clash) {
		return err
	}
	holder := &cm.HolderError{Err: clash.err, Name: clash.held.Name()}
	holder.UID, holder.Known = holderUser(holder.Name)
	return holder
}

// holderUser returns the user of the socket with a name. On a kernel without unix_diag,
// it finds only the users of listening sockets.
func holderUser(name string) (uid uint32, known bool) {
	for _, kind := range []byte{unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
		if uid, known = unixsock.User(name, kind); known {
			return uid, true
		}
	}
	uid, err := unixsock.ListenerUser(name)
	return uid, err == nil
}
