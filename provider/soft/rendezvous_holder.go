//go:build linux

package soft

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A clashError says that an address is taken: by a socket of the spot held, or as
// far as the search for a free port is concerned, by one that overlaps it.
type clashError struct {
	err  error // cm.ErrAddrInUse or cm.ErrAddrNotAvailable
	held spot
}

func (e *clashError) Error() string { return e.err.Error() + ": " + e.held.name() }
func (e *clashError) Unwrap() error { return e.err }

// explainClash makes a *cm.HolderError of a clash, which says whose socket it is. Any
// other error stays as it is.
func explainClash(err error) error {
	var clash *clashError
	if !errors.As(err, &clash) {
		return err
	}
	holder := &cm.HolderError{Err: clash.err, Name: clash.held.name()}
	holder.UID, holder.Known = holderUser(holder.Name)
	return holder
}

// holderUser finds out whose socket has a name. Where the kernel does not tell of all
// sockets, it still tells the user of one that listens.
func holderUser(name string) (uid uint32, known bool) {
	for _, kind := range []byte{unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
		if uid, known = socketUser(name, kind); known {
			return uid, true
		}
	}
	uid, err := listenerUser(name)
	return uid, err == nil
}
