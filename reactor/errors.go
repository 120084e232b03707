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
	// ErrWouldBlock means that Config.MaxInFlight operations are outstanding. Nothing is
	// sent. OnWritable is called when the application can try again.
	ErrWouldBlock = errors.New("send queue full, wait for OnWritable")
	// ErrPeerClosed means that the peer has disconnected. If the connection manager
	// reports that the peer's process ended without disconnecting, the error is
	// verbs.ErrPeerGone instead.
	ErrPeerClosed = errors.New("closed by the peer")
	// ErrAborted means that Conn.Abort was called without a cause.
	ErrAborted = errors.New("aborted")
	// ErrShutdown means that the engine is shutting down.
	ErrShutdown = errors.New("shutting down")
	// ErrDrainTimeout means that after Conn.Close the peer has not confirmed every send
	// within Config.DrainTimeout.
	ErrDrainTimeout = errors.New("sends not confirmed in time")
	// ErrDeadline means that the time set with Conn.SetDeadline has come.
	ErrDeadline = errors.New("deadline passed")
	// ErrIdle means that nothing was sent or received for the time passed to
	// Conn.SetIdleTimeout.
	ErrIdle = errors.New("idle for too long")
	// ErrKeepalive means that the peer has not answered a keepalive probe, see
	// Config.Keepalive.
	ErrKeepalive = errors.New("keepalive probe not answered")
	// ErrDeviceRemoved means that the device was removed from the system.
	ErrDeviceRemoved = errors.New("device removed")
	// ErrDecided means that the ConnRequest was already answered.
	ErrDecided = errors.New("request already answered")
	// ErrExpired means that the ConnRequest was not answered within
	// Config.DecisionTimeout.
	ErrExpired = errors.New("request not answered in time")
	// ErrTooManyPosted means that Config.MaxPosted posted functions wait to be run.
	ErrTooManyPosted = errors.New("too many posted functions")
)

// errFailedEarly is the error of a connection whose queue pair has failed before this
// side has received cm.Established. This can happen when the peer has received its own
// cm.Established earlier: the peer may then send a request that makes the queue pair of
// this side fail.
var errFailedEarly = fmt.Errorf("%w: the queue pair failed before the connection was open", verbs.ErrState)

var errNilArgument = errors.New("a provider and a handler are needed")

// Errors of the data path. They are made in advance, because the data path does not
// allocate memory.
var (
	errSendClosed    = operr.Wrap("send", ErrClosed)
	errForeignBuffer = operr.Wrap("send", verbs.ErrForeign)

	errImmWithoutHasImm = operr.Wrap("send", &verbs.ParamError{Field: "Imm", Reason: "HasImm is false"})
	errImmNotSent       = operr.Wrap("one-sided operation", &verbs.ParamError{
		Field: "HasImm", Value: 1, Reason: "only SendWith, SendBufferWith and the argument of WriteImm send immediate data",
	})
	errNoSolicited = operr.Wrap("one-sided operation", &verbs.ParamError{
		Field: "Solicited", Value: 1, Reason: "the operation has no completion at the peer",
	})
)

// A CloseError is an error of OnClose that has two parts: the reason why the connection
// has ended, and the error of the first request that failed. It matches both errors.
type CloseError struct {
	Cause error // reason: ErrPeerClosed, verbs.ErrPeerGone, ErrDrainTimeout ...
	First error // error of the first failed request, a *verbs.CompletionError
}

// Error returns the texts of both errors.
func (e *CloseError) Error() string { return e.Cause.Error() + ": " + e.First.Error() }

// Unwrap returns Cause and First.
func (e *CloseError) Unwrap() []error { return []error{e.Cause, e.First} }

// firstError returns the first of its two arguments that is not nil, or nil if both are
// nil.
func firstError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
