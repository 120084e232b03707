package reactor_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestSmallMessagesOnWirePath checks that small messages take no receive buffers, and a
// longer message takes one.
func TestSmallMessagesOnWirePath(t *testing.T) {
	port := freeport.UDP(t)
	var got []int
	server := wireLoop(t, &hooks{message: func(_ *reactor.Conn, m reactor.Message) { got = append(got, len(m.Data())) }}, port, nil)
	var conn *reactor.Conn
	client := wireLoop(t, &hooks{open: func(c *reactor.Conn) { conn = c }}, port, nil)
	ln, err := server.Engine().Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	require.NoError(t, client.Engine().Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: netip.MustParseAddrPort("127.0.0.2:0")}))
	drive(t, func() bool { return conn != nil && server.Conns() == 1 }, client, server)
	// The last message of connection management may be lost. Then the first message
	// establishes the connection.
	send := func(length int) {
		require.NoError(t, conn.Send(make([]byte, length), nil))
		before := len(got)
		drive(t, func() bool { return len(got) > before }, client, server)
		require.Equal(t, length, got[before])
	}
	// The counters that Stats returns may be a millisecond old.
	doorbells := func() uint64 {
		drive(t, func() bool { return server.Stats().Messages == uint64(len(got)) }, client, server)
		return server.Stats().RecvDoorbells
	}
	send(1)
	before := doorbells()
	for i := range 200 {
		send(i % (verbs.InlineBytes + 1))
	}
	require.Equal(t, before, doorbells())
	send(verbs.InlineBytes + 1)
	require.Equal(t, before+1, doorbells())
}
