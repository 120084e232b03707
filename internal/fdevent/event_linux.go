package fdevent

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// An Event is a descriptor that a call makes readable. Any goroutine may call its methods
// until Close. Source: eventfd(2).
type Event struct{ fd int }

// NewEvent returns an Event that is not readable.
func NewEvent() (*Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &Event{fd}, nil
}

// FD returns the descriptor, which the Event owns.
func (e *Event) FD() int { return e.fd }

// Signal makes the descriptor readable. It never blocks. An error would mean that the
// descriptor is readable already (EAGAIN).
func (e *Event) Signal() { _, _ = unix.Write(e.fd, increment) }

// Signal adds this number to the counter of the eventfd: 1 in 64 bits in host byte order.
var increment = binary.NativeEndian.AppendUint64(nil, 1)

// Drain makes the descriptor unreadable until the next Signal. It never blocks. If the
// descriptor is not readable, Drain does nothing.
func (e *Event) Drain() { drain(e.fd) }

// Await blocks until the descriptor is readable.
func (e *Event) Await() { await(e.fd) }

// Close closes the descriptor. No method may be called afterwards, except FD.
func (e *Event) Close() error {
	if e == nil {
		return nil
	}
	return os.NewSyscallError("close", unix.Close(e.fd))
}
