package stream

import (
	"fmt"
	"syscall"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
)

var (
	// ErrProtocol means that the peer has violated the rsocket protocol.
	ErrProtocol = rsocket.ErrProtocol
	// ErrVersion means that the peer does not speak the rsocket protocol, or speaks
	// another version of it.
	ErrVersion = rsocket.ErrVersion
	// ErrWouldBlock means that Stream.Write has written a part of the bytes, or none.
	// OnWritable is called when the rest can be written.
	ErrWouldBlock = reactor.ErrWouldBlock
	// ErrClosed means that the stream, or its writing direction, was closed by this side.
	ErrClosed = reactor.ErrClosed
	// ErrPeerClosed means that the peer has closed the stream, and this side had not
	// ended its writing direction before. The peer may not have read all bytes.
	ErrPeerClosed = reactor.ErrPeerClosed
)

// A ResetError means that a stream has ended without the messages of the protocol that
// end a stream. This happens, for example, when the process of the peer has ended. Bytes
// may be lost. A ResetError matches syscall.ECONNRESET and Err.
type ResetError struct {
	Err error // why the connection has ended
}

// Error returns the text of the reason.
func (e *ResetError) Error() string { return fmt.Sprintf("stream reset: %v", e.Err) }

// Unwrap returns syscall.ECONNRESET and Err.
func (e *ResetError) Unwrap() []error { return []error{syscall.ECONNRESET, e.Err} }
