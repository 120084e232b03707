//go:build linux

package soft

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// newEventfd makes a counter descriptor that never blocks; see eventfd(2).
func newEventfd() (int, error) {
	return unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
}

// ringEventfd makes fd readable. A full counter (EAGAIN) is as readable as it
// can be; other errors mean that the descriptor is gone, and with it the sleeper.
func ringEventfd(fd int) { _, _ = unix.Write(fd, eventfdOne) }

// eventfdOne is what is written: 1 as a 64-bit integer in host order. It is
// never changed.
var eventfdOne = binary.NativeEndian.AppendUint64(nil, 1)

// drainEventfd makes fd unreadable until it is rung again.
func drainEventfd(fd int) {
	var count [8]byte
	_, _ = unix.Read(fd, count[:])
}
