package stream_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestPrivateData checks that private data of the largest sizes reaches the other side,
// in both directions.
func TestPrivateData(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		request, reply := make([]byte, stream.MaxRequestData), make([]byte, stream.MaxReplyData)
		request[0], request[len(request)-1], reply[0], reply[len(reply)-1] = 1, 2, 3, 4
		var asked *stream.Request
		server := &hooks{request: func(r *stream.Request) {
			asked = r
			var param *verbs.ParamError
			require.ErrorAs(t, r.Accept(&stream.AcceptOptions{PrivateData: append(reply, 0)}), &param)
			require.NoError(t, r.Accept(&stream.AcceptOptions{PrivateData: reply, UserData: "accepted"}))
		}}
		e := &pair{client: newLoop(t, p, nil), server: newLoop(t, p, nil)}
		ln, err := stream.Listen(e.server.Engine(), loopback, server, nil)
		require.NoError(t, err)
		server.open = func(s *stream.Stream) { e.accepted = s }
		o := &stream.DialOptions{PrivateData: request, UserData: "dialed", LocalAddr: p.client}
		require.NoError(t, stream.Dial(e.client.Engine(), ln.Addr(), &hooks{open: func(s *stream.Stream) { e.dialed = s }}, o))
		e.drive(t, func() bool { return e.dialed != nil && e.accepted != nil })
		require.Equal(t, request, asked.PrivateData()[:len(request)])
		require.Equal(t, request, e.accepted.PeerPrivateData()[:len(request)])
		require.Equal(t, reply, e.dialed.PeerPrivateData()[:len(reply)])
		require.Equal(t, "accepted", e.accepted.UserData)
		require.Equal(t, "dialed", e.dialed.UserData)
		require.Equal(t, e.dialed.Conn().Info().LocalAddr, e.accepted.Conn().Info().RemoteAddr)
		require.Equal(t, e.accepted.Conn().Info().LocalAddr, e.dialed.Conn().Info().RemoteAddr)
		require.Same(t, e.server, e.accepted.Conn().Loop())
		o.PrivateData = append(request, 0)
		var param *verbs.ParamError
		require.ErrorAs(t, stream.Dial(e.client.Engine(), ln.Addr(), &hooks{}, o), &param)
	})
}

// TestReject checks that the application can reject a request, with private data.
func TestReject(t *testing.T) {
	e := &pair{client: newLoop(t, path{}, nil), server: newLoop(t, path{}, nil)}
	server := &hooks{request: func(r *stream.Request) { require.NoError(t, r.Reject([]byte("full"))) }}
	ln, err := stream.Listen(e.server.Engine(), loopback, server, nil)
	require.NoError(t, err)
	var failed error
	o := &stream.DialOptions{}
	client := &hooks{dialError: func(got *stream.DialOptions, err error) { require.Same(t, o, got); failed = err }}
	require.NoError(t, stream.Dial(e.client.Engine(), ln.Addr(), client, o))
	e.drive(t, func() bool { return failed != nil })
	var reject *cm.RejectError
	require.ErrorAs(t, failed, &reject)
	require.Equal(t, "full", reject.Text())
}

// TestSmallQueues checks that both sides refuse streams if the queues of a connection are
// too small for the protocol.
func TestSmallQueues(t *testing.T) {
	small := &reactor.Config{MaxInFlight: 15}
	for name, cfg := range map[string][2]*reactor.Config{"client": {small, nil}, "server": {nil, small}} {
		t.Run(name, func(t *testing.T) {
			e := &pair{client: newLoop(t, path{}, cfg[0]), server: newLoop(t, path{}, cfg[1])}
			var accept, dial error
			server := &hooks{acceptError: func(_ *stream.Request, err error) { accept = err }}
			ln, err := stream.Listen(e.server.Engine(), loopback, server, nil)
			require.NoError(t, err)
			client := &hooks{dialError: func(_ *stream.DialOptions, err error) { dial = err }}
			require.NoError(t, stream.Dial(e.client.Engine(), ln.Addr(), client, nil))
			e.drive(t, func() bool { return dial != nil && (name == "client" || accept != nil) })
			var param *verbs.ParamError
			require.ErrorAs(t, errors.Join(accept, dial), &param)
			require.Equal(t, "MaxInFlight", param.Field)
		})
	}
}

// TestBuffers checks the limits of the sizes.
func TestBuffers(t *testing.T) {
	l := newLoop(t, path{}, nil)
	for _, b := range []stream.Buffers{{Receive: 127}, {Receive: 1<<30 + 1}, {Receive: -1}, {Send: -1}, {Send: 1<<30 + 1}} {
		var param *verbs.ParamError
		_, err := stream.Listen(l.Engine(), loopback, &hooks{}, &stream.ListenOptions{Buffers: b})
		require.ErrorAs(t, err, &param)
		require.ErrorAs(t, stream.Dial(l.Engine(), loopback, &hooks{}, &stream.DialOptions{Buffers: b}), &param)
		require.Contains(t, param.Field, "Buffers.")
	}
}

// TestAcceptTwice checks that one of two calls of Accept at the same time succeeds, and
// that its options are used.
func TestAcceptTwice(t *testing.T) {
	accepted := -1
	server := &hooks{request: func(r *stream.Request) {
		var errs [2]error
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { errs[i] = r.Accept(&stream.AcceptOptions{UserData: i}) })
		}
		group.Wait()
		for i, err := range errs {
			if err == nil {
				accepted = i
				err = errs[1-i]
				require.ErrorIs(t, err, reactor.ErrDecided)
			}
		}
	}}
	e := connect(t, path{}, &hooks{}, server, stream.Buffers{})
	require.Equal(t, accepted, e.accepted.UserData)
}
