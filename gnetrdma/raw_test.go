package gnetrdma_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// A rawPeer is the handler of a stream that a test can abort.
type rawPeer struct {
	stream.BaseHandler
	opened chan *stream.Stream
}

func (p *rawPeer) OnOpen(s *stream.Stream) { p.opened <- s }

// dialRaw opens a stream to an address, with a device of its own. The peer discards all
// bytes. The function abort ends the stream without the messages that end a stream.
func dialRaw(t *testing.T, addr string) (abort func()) {
	device, err := soft.Open(nil)
	require.NoError(t, err)
	e, err := reactor.New(device, reactor.BaseHandler{}, &reactor.Config{NumLoops: 1})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Shutdown(context.Background()))
		require.NoError(t, device.Close())
	})
	require.NoError(t, e.Start())
	p := &rawPeer{opened: make(chan *stream.Stream, 1)}
	require.NoError(t, stream.Dial(e, netip.MustParseAddrPort(addr), p, nil))
	s := <-p.opened
	return func() {
		require.NoError(t, e.Loop(0).Post(func() { _ = s.Abort(nil) }))
	}
}
