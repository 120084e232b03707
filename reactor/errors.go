package reactor

import (
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Causes of errors besides those of verbs and cm; test with errors.Is.
var (
	// ErrClosed: the connection, listener, loop or engine was closed.
	ErrClosed = verbs.ErrClosed
	// ErrWouldBlock: Config.MaxInFlight operations are outstanding. Nothing
	// was taken; OnWritable tells when to try again.
	ErrWouldBlock = errors.New("send queue full, wait for OnWritable")
	// ErrPeerClosed: the peer disconnected in order. One whose process went
	// away without a word is verbs.ErrPeerGone, where the connection manager
	// can tell.
	ErrPeerClosed = errors.New("closed by the peer")
	// ErrAborted: Conn.Abort was called without a cause.
	ErrAborted = errors.New("aborted")
	// ErrShutdown: the engine is shutting down.
	ErrShutdown = errors.New("shutting down")
	// ErrDrainTimeout: Config.DrainTimeout passed before the peer had
	// confirmed every send.
	ErrDrainTimeout = errors.New("sends not confirmed in time")
	// ErrDeadline: the time given to Conn.SetDeadline came.
	ErrDeadline = errors.New("deadline passed")
	// ErrIdle: the time given to Conn.SetIdleTimeout passed in silence.
	ErrIdle = errors.New("idle for too long")
	// ErrKeepalive: the peer did not answer a keepalive probe, see Config.Keepalive.
	ErrKeepalive = errors.New("keepalive not answered")
	// ErrDeviceRemoved: the device went away.
	ErrDeviceRemoved = errors.New("device removed")
	// ErrDecided: a ConnRequest can be answered once.
	ErrDecided = errors.New("request already answered")
	// ErrExpired: Config.DecisionTimeout passed before the answer.
	ErrExpired = errors.New("request expired")
	// ErrMailboxFull: Config.Mailbox functions wait to be run.
	ErrMailboxFull = errors.New("too many posted functions")
)

// errFailedEarly: a peer that knows of the connection first may already have sent
// what it must not.
var errFailedEarly = fmt.Errorf("%w: the queue pair failed before the connection was open", verbs.ErrState)

var errNilArgument = errors.New("a provider and a handler are needed")

// Refusals of the data path, made once: it does not allocate.
var (
	errSendClosed    = verbs.Wrap("send", ErrClosed)
	errForeignBuffer = verbs.Wrap("send", verbs.ErrForeign)
)

// A CloseError is given to OnClose when a connection ended with work undone:
// why it ended, and the first request that failed because of it. Both are
// wrapped.
type CloseError struct {
	Cause error // ErrPeerClosed, verbs.ErrPeerGone, ErrDrainTimeout ...
	First error // a *verbs.CompletionError
}

func (e *CloseError) Error() string { return e.Cause.Error() + ": " + e.First.Error() }

// Unwrap returns the cause and the first failure.
func (e *CloseError) Unwrap() []error { return []error{e.Cause, e.First} }
