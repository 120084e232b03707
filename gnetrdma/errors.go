package gnetrdma

import "errors"

var (
	// ErrOutboundFull means that more output waited for the peer than Config.MaxOutbound.
	ErrOutboundFull = errors.New("gnetrdma: the peer does not read, and too much output waits")
	// ErrInboundFull means that the handler left more bytes unread than Config.MaxInbound.
	ErrInboundFull = errors.New("gnetrdma: the handler has left too many bytes unread")
	// ErrNotStarted means that Client.Start was not called before Client.Dial.
	ErrNotStarted = errors.New("gnetrdma: the client was not started")
)
