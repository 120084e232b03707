package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestAnswerAfterRequestEnded checks the error of an answer to a request that has
// already ended.
func TestAnswerAfterRequestEnded(t *testing.T) {
	for removed, want := range map[bool]error{false: verbs.ErrPeerGone, true: reactor.ErrDeviceRemoved} {
		kept := make(chan *reactor.ConnRequest, 1)
		failed := make(chan error, 1)
		server := start(t, &hooks{
			request:     func(req *reactor.ConnRequest) { kept <- req },
			acceptError: func(_ *reactor.ConnRequest, err error) { failed <- err },
		}, nil)
		client := start(t, &hooks{dialError: func(*reactor.DialOptions, error) {}}, nil)
		addr := listen(t, server)

		require.NoError(t, client.Dial(addr, nil))
		req := receive(t, kept)
		reactor.EndPendingRequest(req, removed)
		require.ErrorIs(t, req.Reject(nil), want)
		require.Zero(t, reactor.PendingRequests(server))

		require.NoError(t, client.Dial(addr, nil))
		req = receive(t, kept)
		reactor.EndPendingRequest(req, removed)
		require.NoError(t, req.Accept(nil))
		require.ErrorIs(t, receive(t, failed), want)
		require.Zero(t, reactor.PendingRequests(server))
		require.Zero(t, server.Stats().NoResources, "the peer of an ended request gets no reject")
	}
}
