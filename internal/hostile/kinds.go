//go:build linux

package hostile

import (
	"errors"
	"maps"
	"net"
	"strings"
	"sync"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Kinds of errors with which connections of a server end: see ServerState.Closed.
const (
	KindNone       = "no error"
	KindPeerClosed = "closed by the peer"
	KindPeerGone   = "peer gone"
	KindLong       = "violation of the protocol for long messages"
	KindStream     = "violation of the stream protocol"
	KindOther      = "other"
)

// kindOf returns the kind of an error of OnClose. The kind of a *verbs.CompletionError is
// the text of its status, and that of a *verbs.AsyncError the text of its event.
func kindOf(err error) string {
	var completion *verbs.CompletionError
	var event *verbs.AsyncError
	var op *net.OpError
	switch {
	case err == nil:
		return KindNone
	case errors.Is(err, verbs.ErrProtocol) && strings.Contains(err.Error(), "long message"):
		return KindLong
	case errors.Is(err, stream.ErrProtocol):
		return KindStream
	case errors.As(err, &event):
		return event.Type.String()
	case errors.As(err, &completion) && completion.Status != verbs.StatusWRFlushErr:
		return completion.Status.String()
	case errors.Is(err, verbs.ErrPeerGone):
		return KindPeerGone
	case errors.Is(err, reactor.ErrPeerClosed):
		return KindPeerClosed
	case errors.As(err, &op):
		err = op.Err // The addresses are not part of the kind.
	}
	return KindOther + ": " + err.Error()
}

// kinds counts errors by their kind. Any goroutine may call its methods.
type kinds struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (k *kinds) count(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n == nil {
		k.n = make(map[string]uint64)
	}
	k.n[kindOf(err)]++
}

func (k *kinds) copy() map[string]uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.n)
}
