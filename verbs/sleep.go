package verbs

import "time"

// The optional interfaces in sleep.go save system calls when the owner of a CQ sleeps.

// A Disarmer is a CQ whose armed state can be cancelled. Use a type assertion to find out
// whether a CQ is a Disarmer.
type Disarmer interface {
	// Disarm cancels an earlier call of Arm. Disarm also drops an event of the CQ that
	// CompChannel.Next has not returned yet. If the CQ is not armed, Disarm does nothing.
	// Every goroutine that may call Arm may also call Disarm.
	//
	// While the owner of the CQ is awake and polls, the owner needs no events, and so calls
	// Disarm. Before the owner sleeps, it calls Arm again.
	Disarm()
}

// A Sleeper is a CompChannel whose owner can sleep until there is an event. The sleep
// takes one system call, and the owner reads no descriptor afterwards. Use a type
// assertion to find out whether a CompChannel is a Sleeper. The CQs of a Sleeper are
// Disarmers.
type Sleeper interface {
	// Join makes Sleep also wait for input on the descriptor fd. After Join, the owner must
	// wait only in Sleep, because the channel no longer makes the descriptor CompChannel.FD
	// readable for each event. The caller owns fd, which must stay open until the channel
	// is closed.
	//
	// For a channel with ProgressAuto the error matches ErrNotSupported. After an earlier
	// Join the error matches ErrState. Other errors are those of epoll_ctl(2).
	Join(fd int) error
	// Sleep waits until the channel has an event or other work, until the descriptor given
	// to Join is readable, or until the timeout has passed. A negative timeout means no
	// limit, and zero means no waiting. Other goroutines can end the wait only by input on
	// the descriptor.
	//
	// If the result work is true, the channel may have an event or other work, and the
	// owner polls the CQs. If the result input is true, the descriptor is readable. Both
	// may be true. Before Join the error matches ErrState. After Close the error matches
	// ErrClosed. Other errors are those of epoll_wait(2).
	Sleep(timeout time.Duration) (work, input bool, err error)
}
