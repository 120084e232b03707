//go:build linux

package hostport

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// A clashError means that an overlapping address is bound already.
type clashError struct {
	err  error    // cm.ErrAddrInUse or cm.ErrAddrNotAvailable
	held BindAddr // address of the other socket
}

func (e *clashError) Error() string { return e.err.Error() + ": " + e.held.Name() }
func (e *clashError) Unwrap() error { return e.err }

// ExplainClash converts a clashError to a *cm.HolderError, which names the user of the
// other socket. It returns other errors unchanged.
func ExplainClash(err error) error {
	var clash *clashError
	if !errors.As(err, &clash) {
		return err
	}
	holder := &cm.HolderError{Err: clash.err, Name: clash.held.Name()}
	holder.UID, holder.Known = holderUser(holder.Name)
	return holder
}

// holderUser returns the user of the socket that has a name. If the kernel has no
// unix_diag, holderUser finds only the users of listening sockets.
func holderUser(name string) (uid uint32, known bool) {
	for _, kind := range []byte{unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
		if uid, known = unixsock.User(name, kind); known {
			return uid, true
		}
	}
	uid, err := unixsock.ListenerUser(name)
	return uid, err == nil
}
