//go:build linux

package stream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/stream"
)

// simPort is a port at which processes of a world listen.
const simPort = 7471

// A simPair is two hosts of a world, with a stream between them.
type simPair struct {
	client, server   *reactortest.Process
	dialed, accepted *stream.Stream
}

// connectIn opens a stream between two hosts.
func connectIn(t *testing.T, w *reactortest.World, client, server *hooks, cfg *reactor.Config) *simPair {
	e := &simPair{client: w.Host("client").Process("client"), server: w.Host("server").Process("server")}
	client.open = func(s *stream.Stream) { e.dialed = s }
	server.open = func(s *stream.Stream) { e.accepted = s }
	at := e.server.Host().AddrPort(simPort)
	_, err := stream.Listen(e.server.Start(reactor.BaseHandler{}, cfg), at, server, nil)
	require.NoError(t, err)
	require.NoError(t, stream.Dial(e.client.Start(reactor.BaseHandler{}, cfg), at, client, nil))
	w.Until(time.Minute, func() bool { return e.dialed != nil && e.accepted != nil })
	return e
}

// TestLastAcknowledgementIsLost checks that a side that has closed the stream gets no error
// if the acknowledgement of its last message is lost and the peer has got all bytes.
func TestLastAcknowledgementIsLost(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		client, server := &endRecord{}, &endRecord{}
		e := connectIn(t, w, client.hooks(), server.hooks(), &reactor.Config{Transport: reactor.Transport{AckTimeout: time.Millisecond}})
		w.SetFaults(reactortest.Faults{Delay: 10 * time.Microsecond})
		w.On(e.dialed.Conn().Loop(), func() {
			write(t, e.dialed, "the last words")
			require.NoError(t, e.dialed.Close())
		})
		e.server.Host().SetFaultsTo(e.client.Host(), reactortest.Faults{Loss: 1})
		w.Until(time.Second, func() bool { return server.closes == 1 })
		require.Equal(t, endRecord{data: "the last words", ends: 1, closes: 1, err: stream.ErrPeerClosed}, *server)
		w.For(time.Microsecond * 100)
		e.server.Host().SetFaultsTo(e.client.Host(), reactortest.Faults{})
		w.Until(time.Second, func() bool { return client.closes == 1 })
		require.Equal(t, endRecord{closes: 1}, *client)
	})
}
