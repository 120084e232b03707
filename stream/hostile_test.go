package stream_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A rawPeer dials a listener of this package, and sends messages of its choice.
type rawPeer struct {
	reactor.BaseHandler
	conn    *reactor.Conn
	ring    reactor.Remote // ring of the other side
	table   reactor.Remote // table of the other side
	credits int            // credits that the other side has given
	got     int            // messages of the other side
	dialErr error
	closed  bool
}

// rawHello returns the private data of a peer whose addresses and keys are zero.
func rawHello(version byte) []byte {
	b := make([]byte, 40)
	b[0], b[1] = version, 2
	binary.BigEndian.PutUint16(b[2:], 100)
	binary.BigEndian.PutUint32(b[20:], 2)
	binary.BigEndian.PutUint32(b[36:], 1<<16)
	return b
}

// helloWithMemory returns the private data of a peer with a table and a ring of 256
// bytes.
func helloWithMemory(c *reactor.Conn) ([]byte, error) {
	const ring = 256
	region, err := c.Loop().Engine().Alloc(2*ring, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	at, err := region.Remote(c.Info().Device, 0, 2*ring)
	if err != nil {
		return nil, err
	}
	b := rawHello(1)
	for _, place := range []int{8, 24} { // the table in the second half of the memory, and the ring
		binary.BigEndian.PutUint64(b[place:], at.Addr+uint64(ring)*uint64((24-place)/16))
		binary.BigEndian.PutUint32(b[place+8:], at.RKey)
	}
	binary.BigEndian.PutUint32(b[36:], ring/2)
	return b, nil
}

func (p *rawPeer) OnOpen(c *reactor.Conn) {
	p.conn = c
	b := c.Info().PeerPrivateData
	p.credits = int(binary.BigEndian.Uint16(b[2:]))
	p.table = reactor.Remote{Addr: binary.BigEndian.Uint64(b[8:]), RKey: binary.BigEndian.Uint32(b[16:])}
	p.ring = reactor.Remote{Addr: binary.BigEndian.Uint64(b[24:]), RKey: binary.BigEndian.Uint32(b[32:])}
}

func (p *rawPeer) OnMessage(*reactor.Conn, reactor.Message) { p.got++ }

func (p *rawPeer) OnClose(*reactor.Conn, error) { p.closed = true }

func (p *rawPeer) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	p.dialErr = err
}

// imm sends a WRITE with immediate data and without payload.
func (p *rawPeer) imm(t *testing.T, imm uint32) {
	require.NoError(t, p.conn.WriteBytes(reactor.Remote{}, nil, &reactor.OpOptions{HasImm: true, Imm: imm, Quiet: true}))
}

// data sends a data message of n bytes to the given place in the ring.
func (p *rawPeer) data(t *testing.T, at, n int) {
	to := reactor.Remote{Addr: p.ring.Addr + uint64(at), RKey: p.ring.RKey}
	require.NoError(t, p.conn.WriteBytes(to, make([]byte, n), &reactor.OpOptions{HasImm: true, Imm: uint32(n), Quiet: true}))
}

// TestHostilePeer checks that a peer that violates the protocol loses its stream, that
// the Handler learns why, and that another stream of the same listener goes on.
func TestHostilePeer(t *testing.T) {
	const ring = 4096
	const credit = 4 << 29
	for name, violate := range map[string]func(t *testing.T, p *rawPeer){
		"undefined operation":       func(t *testing.T, p *rawPeer) { p.imm(t, 5<<29) },
		"undefined control":         func(t *testing.T, p *rawPeer) { p.imm(t, 7<<29|3) },
		"mapping":                   func(t *testing.T, p *rawPeer) { p.imm(t, 6<<29) },
		"no data":                   func(t *testing.T, p *rawPeer) { p.imm(t, 0) },
		"more data than the ring":   func(t *testing.T, p *rawPeer) { p.imm(t, ring/2+1) },
		"data across the halves":    func(t *testing.T, p *rawPeer) { p.data(t, 0, 2000); p.data(t, 2000, 100) },
		"data behind the end":       func(t *testing.T, p *rawPeer) { p.imm(t, 7<<29|2); p.data(t, 0, 1) },
		"data behind the last byte": func(t *testing.T, p *rawPeer) { p.data(t, 0, ring/2); p.data(t, ring/2, ring/2); p.data(t, 0, 1) },
		"a credit taken back":       func(t *testing.T, p *rawPeer) { p.imm(t, credit|50) },
		"too many credits": func(t *testing.T, p *rawPeer) {
			for i := range 4 {
				p.imm(t, credit|uint32(uint16(100+(i+1)*30_000)))
			}
		},
		"data without credits": func(t *testing.T, p *rawPeer) {
			for i := range p.credits + 1 {
				p.data(t, i, 1)
			}
		},
		"an empty message": func(t *testing.T, p *rawPeer) { require.NoError(t, p.conn.Send(nil, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			var hostile error
			closed, got := 0, 0
			server := &hooks{
				data:  func(*stream.Stream) { got++ }, // without reading the data
				end:   func(*stream.Stream) {},
				close: func(_ *stream.Stream, err error) { hostile = err; closed++ },
			}
			e := connect(t, path{}, &hooks{}, server, stream.Buffers{Receive: ring})
			p := &rawPeer{}
			require.NoError(t, e.client.Engine().Dial(e.accepted.Conn().Info().LocalAddr, &reactor.DialOptions{
				Handler: p, ImmediatesOnly: true, PrivateData: rawHello(1),
			}))
			e.drive(t, func() bool { return p.conn != nil })
			violate(t, p)
			e.drive(t, func() bool { return closed > 0 && p.closed })
			require.ErrorIs(t, hostile, stream.ErrProtocol)
			before := got
			n, err := e.dialed.Write([]byte("still there"))
			require.NoError(t, err)
			require.Equal(t, 11, n)
			e.drive(t, func() bool { return got > before })
			require.Equal(t, "still there", string(e.accepted.Bytes()))
			require.Equal(t, 1, closed)
		})
	}
}

// TestOtherProtocols checks that a listener rejects peers that do not speak the protocol,
// and that Dial fails if the reply is not one of the protocol.
func TestOtherProtocols(t *testing.T) {
	noTable := rawHello(1)
	clear(noTable[20:24]) // the number of the table's entries
	for name, private := range map[string][]byte{
		"no private data": nil, "too short": {1, 2, 3}, "other version": rawHello(2), "no table": noTable,
	} {
		t.Run(name, func(t *testing.T) {
			e := connect(t, path{}, &hooks{}, &hooks{request: func(r *stream.Request) { require.NoError(t, r.Accept(nil)) }}, stream.Buffers{})
			p := &rawPeer{}
			require.NoError(t, e.client.Engine().Dial(e.accepted.Conn().Info().LocalAddr, &reactor.DialOptions{Handler: p, PrivateData: private}))
			e.drive(t, func() bool { return p.dialErr != nil })
			require.ErrorContains(t, p.dialErr, "refused by the application")

			var failed error
			other := &reactor.ListenOptions{Handler: privateServer{private: private}}
			ln, err := e.server.Engine().Listen(loopback, other)
			require.NoError(t, err)
			h := &hooks{dialError: func(_ *stream.DialOptions, err error) { failed = err }}
			require.NoError(t, stream.Dial(e.client.Engine(), ln.Addr(), h, nil))
			e.drive(t, func() bool { return failed != nil })
			require.ErrorContains(t, failed, "dial "+ln.Addr().String())
		})
	}
}

// A privateServer accepts requests with constant private data.
type privateServer struct {
	reactor.BaseHandler
	private []byte
}

func (s privateServer) OnConnectRequest(req *reactor.ConnRequest) {
	_ = req.Accept(&reactor.AcceptOptions{PrivateData: s.private})
}
