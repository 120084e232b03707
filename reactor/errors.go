package reactor

import (
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Errors of this package. Test for them with errors.Is. Methods of this package also
// return errors of the packages verbs and cm.
var (
	// ErrClosed means that the connection, listener, loop or engine was closed.
	ErrClosed = verbs.ErrClosed
	// ErrWouldBlock means that Config.MaxInFlight operations are outstanding, or that 15
	// messages follow a long one that the peer has not read. Nothing is sent. OnWritable is
	// called when the application can try again.
	ErrWouldBlock = errors.New("send queue full, wait for OnWritable")
	// ErrPeerClosed means that the peer has called Close or Abort, or has disconnected
	// after an error. OnClose gets it in a *CloseError, which has the peer's reason. If the
	// peer's process is known to have ended, the error is verbs.ErrPeerGone.
	ErrPeerClosed = errors.New("closed by the peer")
	// ErrAborted means that Conn.Abort was called without a cause.
	ErrAborted = errors.New("aborted")
	// ErrShutdown means that the engine is shutting down.
	ErrShutdown = errors.New("shutting down")
	// ErrDrainTimeout means that after Conn.Close the peer has not confirmed every send
	// within Config.Limits.DrainTimeout.
	ErrDrainTimeout = errors.New("sends not confirmed in time")
	// ErrTimeout means that the time passed to Conn.SetTimeout is over.
	ErrTimeout = errors.New("time limit passed")
	// ErrIdle means that nothing was sent or received for the time passed to
	// Conn.SetIdleTimeout.
	ErrIdle = errors.New("idle for too long")
	// ErrKeepalive means that the peer has not answered a keepalive probe, see
	// Config.Transport.Keepalive.
	ErrKeepalive = errors.New("keepalive probe not answered")
	// ErrPanicked means that a callback of the connection has panicked, and that the program
	// has recovered from that: see Loop.RunOnce.
	ErrPanicked = errors.New("a callback has panicked")
	// ErrDeviceRemoved means that the device was removed from the system.
	ErrDeviceRemoved = errors.New("device removed")
	// ErrDecided means that the ConnRequest was already answered.
	ErrDecided = errors.New("request already answered")
	// ErrExpired means that the ConnRequest was not answered within
	// Config.Limits.DecisionTimeout.
	ErrExpired = errors.New("request not answered in time")
	// ErrTooManyPosted means that Config.Limits.MaxPosted posted functions wait to be run. Loop.PostWait
	// waits instead.
	ErrTooManyPosted = errors.New("too many posted functions")
)

// errFailedEarly is the error of a connection whose queue pair has failed before
// cm.Established, because of a request of the peer.
var errFailedEarly = stateError("the queue pair failed before the connection was open")

var errForeignLoop = foreignError("the loop is nil or of another engine")

var errLoopEnded = closedError("the loop")

// errClosing is the error of Close and Abort on a connection that is closing.
var errClosing = fmt.Errorf("%w: the connection is closing already, or has ended", ErrClosed)

// errNotDiscardable is the reason of the error of Region.Discard.
var errNotDiscardable = errors.New("the memory belongs to the application")

// stateError returns an error that matches verbs.ErrState. The parameter why says what the
// caller has overlooked.
func stateError(why string) error { return fmt.Errorf("%w: %s", verbs.ErrState, why) }

// foreignError returns an error that matches verbs.ErrForeign.
func foreignError(what string) error { return fmt.Errorf("%w: %s", verbs.ErrForeign, what) }

// closedError returns an error that matches ErrClosed.
func closedError(what string) error { return fmt.Errorf("%w: %s has ended", ErrClosed, what) }

// Errors of the data path. They are made in advance, because the data path does not
// allocate memory.
var (
	errSendClosed    = operr.Wrap("send", errClosing)
	errForeignBuffer = operr.Wrap("send", foreignError("the buffer is of another loop or device, or the application does not own it"))
	errForeignRegion = operr.Wrap("use region", foreignError("the region is nil or of another engine"))
	errRegionClosed  = operr.Wrap("use region", ErrClosed)
)

// Errors of the data path if the peer, or a device that is defective, makes completions that
// can not be.
var (
	errUnknownCompletion = operr.Wrap("poll CQ", fmt.Errorf("%w: a completion of a request that is not outstanding", verbs.ErrProtocol))
	errUnknownKey        = operr.Wrap("poll CQ", fmt.Errorf("%w: it has given back a key that was not shown to it", verbs.ErrProtocol))
)

// A CloseError is an error of OnClose with several parts: why the connection has ended, the
// error of the first failed request, and the reason that the peer gives. The CloseError matches
// the errors Cause and First.
type CloseError struct {
	Cause error // reason: ErrPeerClosed, verbs.ErrPeerGone, ErrDrainTimeout ...
	// First is the error of the first failed request, which matches *verbs.CompletionError. It
	// is nil if no operation of the application has failed.
	First error
	// Peer is the reason that the peer gives. If Cause is ErrPeerClosed and the peer gives none,
	// its Kind is CloseUnknown. With another Cause it is the zero value.
	Peer CloseReason
}

// Error returns the text of Cause, Peer unless the peer has just called Close, and the text of
// First. It leaves out First if that only says that the request was flushed, and after
// verbs.ErrPeerGone, where its status says that the retries were used up, although the end of
// the process was noticed before.
func (e *CloseError) Error() string {
	text := e.Cause.Error()
	if e.Cause == ErrPeerClosed && e.Peer != (CloseReason{Kind: CloseNormal}) {
		text += " (" + e.Peer.String() + ")"
	}
	var first *verbs.CompletionError
	if !errors.As(e.First, &first) || first.Status == verbs.StatusWRFlushErr || errors.Is(e.Cause, verbs.ErrPeerGone) {
		return text
	}
	return text + ": " + e.First.Error()
}

// Unwrap returns Cause, and First unless it is nil.
func (e *CloseError) Unwrap() []error {
	if e.First == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.First}
}

// A longMessageError is the error of OnClose on a connection whose peer has announced a
// long message that can not be received, or has violated the protocol for long messages.
// It matches verbs.ErrProtocol, and Err if that is not nil.
type longMessageError struct {
	Length uint64 // length of the message in bytes; 0 if it is not known
	Reason string
	Err    error // error of a READ, such as a *verbs.CompletionError, or nil
}

// Error returns the length, the reason and the text of Err.
func (e *longMessageError) Error() string {
	text := fmt.Sprintf("long message of %d bytes: %s", e.Length, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns verbs.ErrProtocol and Err.
func (e *longMessageError) Unwrap() []error {
	if e.Err == nil {
		return []error{verbs.ErrProtocol}
	}
	return []error{verbs.ErrProtocol, e.Err}
}

// firstError returns the first of its two arguments that is not nil, or nil if both are
// nil.
func firstError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// asNoResources makes an error match verbs.ErrNoResources. It does not change an error
// that matches verbs.ErrPeerGone, verbs.ErrState or verbs.ErrClosed.
func asNoResources(err error) error {
	for _, other := range []error{verbs.ErrNoResources, verbs.ErrPeerGone, verbs.ErrState, verbs.ErrClosed} {
		if errors.Is(err, other) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", verbs.ErrNoResources, err)
}
