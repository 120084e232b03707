//go:build linux

package unixcm

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// FuzzConversation sends random messages from a client, while the passive side makes
// random calls. The event Disconnected must occur at most once.
func FuzzConversation(f *testing.F) {
	const request, accept, ready, leave, next = 0x00, 0x81, 0x03, 0x83, 0x80
	f.Add([]byte{request, next, accept, ready, next, leave, next})
	f.Add([]byte{request, next, accept, ready, 0x04, next, 0x83, next, next})
	f.Add([]byte{request, next, 0x82})
	f.Add([]byte{request, next, accept, 0x85, ready, next, 0x85, leave, ready, next})
	f.Add([]byte{0x09, next, request, next, accept, 0x0a, next, 0x84})
	f.Add([]byte{request, next, accept, ready, next, next, 0x05, next})
	s := makeParty(true)
	f.Fuzz(func(t *testing.T, script []byte) {
		c := newConversation(t, s.M)
		for _, step := range script {
			if step&0x80 != 0 {
				c.act(step & 0x7f)
			} else {
				c.send(step)
			}
		}
		c.end()
		s.RequireNothingLeft(t)
	})
}

type conversation struct {
	t        *testing.T
	ch       *connmgr.Channel
	listener cm.TransportID
	client   int
	messages []connmgr.Message
	id       cm.TransportID
	ended    int
}

func newConversation(t *testing.T, m *connmgr.Manager) *conversation {
	tc, err := m.OpenChannel()
	require.NoError(t, err)
	c := &conversation{t: t, ch: tc.(*connmgr.Channel)}
	c.listener, err = tc.NewID(cm.TCP)
	require.NoError(t, err)
	require.NoError(t, c.listener.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	require.NoError(t, c.listener.Listen(2))
	port, err := hostport.New(nil).Reserve(cm.TCP, netip.MustParseAddrPort("127.0.0.1:0"), false, false, hostport.New(nil).EphemeralPorts)
	require.NoError(t, err)
	c.client = port.Take()
	at := c.listener.LocalAddr()
	require.NoError(t, unix.Connect(c.client, &unix.SockaddrUnix{Name: hostport.New(nil).NewBindAddr(cm.TCP, at, false).Name()}))
	ends := connmgr.Endpoints{Src: netip.AddrPortFrom(at.Addr(), port.Addr.Port), Dst: at}
	c.messages = []connmgr.Message{
		&connmgr.REQ{Endpoints: ends}, &connmgr.REP{}, &connmgr.REJ{Reason: cm.RejectConsumer}, &connmgr.RTU{},
		&connmgr.DREQ{Private: []byte("bye")}, &connmgr.DREP{}, &connmgr.SIDRREQ{Endpoints: ends}, &connmgr.SIDRREP{},
	}
	return c
}

// send sends the client's message whose index in messages is the parameter what. If there
// is no such message, send sends an invalid packet.
func (c *conversation) send(what byte) {
	packet := []byte{what}
	if int(what) < len(c.messages) {
		packet = encode(c.messages[what])
	}
	_ = unixsock.Send(c.client, packet, nil)
}

// act makes one call on the passive side. The parameter what selects the call: 0 fetches
// an event, and each number from 1 to 5 calls a method of the ID.
func (c *conversation) act(what byte) {
	if what == 0 {
		c.next()
		return
	}
	if c.id == nil {
		return
	}
	switch what {
	case 1:
		_ = c.id.Accept(&cm.MessageParam{QPNum: 5})
	case 2:
		_ = c.id.Reject(cm.RejectConsumer, []byte("no"))
	case 3:
		_ = c.id.Disconnect(nil)
	case 4:
		require.NoError(c.t, c.id.Destroy())
		c.id = nil
	case 5:
		_ = c.id.Notify(verbs.AsyncCommEst)
	}
}

func (c *conversation) next() {
	var ev cm.TransportEvent
	ok, err := c.ch.Next(&ev)
	require.NoError(c.t, err)
	switch {
	case !ok:
	case ev.Type == cm.ConnectRequest:
		require.Nil(c.t, c.id, "one client makes one request")
		c.id = ev.ID
	case ev.Type == cm.Disconnected:
		c.ended++
		require.LessOrEqual(c.t, c.ended, 1)
	}
}

func (c *conversation) end() {
	if c.id != nil {
		require.NoError(c.t, c.id.Destroy())
	}
	require.NoError(c.t, c.listener.Destroy())
	_ = unix.Close(c.client)
	require.Empty(c.t, handlersOf(c.ch))
	cmtest.RequireNoTimer(c.t, c.ch)
	require.Empty(c.t, c.ch.Probe().Queued())
	require.NoError(c.t, c.ch.Close())
}
