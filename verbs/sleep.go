package verbs

import "time"

// This file has two optional abilities of devices that save system calls when the owner
// of a CQ sleeps.

// A Disarmer is a CQ whose Arm can be cancelled. Use a type assertion to find out whether
// a CQ is a Disarmer.
type Disarmer interface {
	// Disarm cancels Arm. It also drops an event of the CQ that CompChannel.Next has not
	// returned yet. If the CQ is not armed, Disarm does nothing. The same goroutines may
	// call Disarm and Arm.
	//
	// An owner that is awake and polls calls Disarm, because it needs no events. Before
	// it sleeps, it calls Arm again.
	Disarm()
}

// A Sleeper is a CompChannel in which its owner can sleep, with one system call and
// without reading a descriptor. Use a type assertion to find out whether a CompChannel is
// a Sleeper. The CQs of a Sleeper are Disarmers.
type Sleeper interface {
	// Join makes Sleep wait for input on fd too. From then on, the owner waits only in
	// Sleep, because the channel does not make CompChannel.FD readable for each event. The
	// caller owns fd, which must stay open until the channel is closed.
	//
	// The error matches ErrNotSupported for a channel with ProgressAuto, and ErrState
	// after an earlier Join. Other errors are those of epoll_ctl(2).
	Join(fd int) error
	// Sleep waits until the channel has an event or other work, fd is readable, or the
	// timeout has passed. A negative timeout means no limit, and zero means no waiting.
	// Other goroutines can end the wait only by input on fd.
	//
	// The result work is true if the channel may have an event or other work. The owner
	// then polls the CQs. The result input is true if fd is
	// readable. Both may be true. The error matches ErrState before Join, and ErrClosed
	// after Close. Other errors are those of epoll_wait(2).
	Sleep(timeout time.Duration) (work, input bool, err error)
}
