//go:build linux

package connmgr

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A fakeConn is a Conn of the path that it names.
type fakeConn struct {
	Conn
	path string
}

func (c fakeConn) Path() string { return c.path }

// A fakeTransport is the transport of a path that the test does not use.
type fakeTransport struct{ WireTransport }

// A placedQP is a queue pair that records the calls of ReceiveAt.
type placedQP struct {
	QueuePair
	receivingAt  []netip.Addr // arguments of the calls of ReceiveAt, in order
	receiveAtErr error        // error that ReceiveAt returns, or nil
}

func (q *placedQP) ReceiveAt(at netip.Addr) error {
	q.receivingAt = append(q.receivingAt, at)
	return q.receiveAtErr
}

func TestPlaceDatagramQP(t *testing.T) {
	own, loopback, none := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("127.0.0.1"), netip.Addr{}
	peer := netip.MustParseAddrPort("[fe80::2]:7")
	for name, c := range map[string]struct {
		wireOnly bool // true if the device has no local path
		local    netip.Addr
		remote   netip.AddrPort
		conn     Conn
		at       netip.Addr // address that ReceiveAt must get
		optional bool       // true if CreateQP must succeed even if ReceiveAt fails
	}{
		"wire path only":               {wireOnly: true, local: own, at: own},
		"wire path only, on loopback":  {wireOnly: true, local: loopback, at: loopback},
		"connection on the wire path":  {local: own, remote: peer, conn: fakeConn{path: WirePath}, at: own},
		"connection on the local path": {local: own, remote: peer, conn: fakeConn{path: LocalPath}, at: none},
		"bound":                        {local: own, at: own, optional: true},
		"bound to loopback":            {local: loopback, at: none},
		"address with a zone":          {wireOnly: true, local: own.WithZone("eth0"), at: own},
	} {
		for _, fails := range []error{nil, cm.ErrAddrInUse} {
			m := &Manager{Config: Config{Wire: fakeTransport{}}}
			if !c.wireOnly {
				m.Local = fakeTransport{}
			}
			i := &ID{
				m: m, ps: cm.UDP,
				local: netip.AddrPortFrom(c.local, 1), remote: c.remote, conn: c.conn,
			}
			q := &placedQP{receiveAtErr: fails}
			err := i.placeDatagramQP(q)
			require.Equal(t, []netip.Addr{c.at}, q.receivingAt, name)
			if c.optional {
				fails = nil
			}
			require.ErrorIs(t, err, fails, name)

			i.ps = cm.TCP
			require.NoError(t, i.placeDatagramQP(q), name)
			require.Len(t, q.receivingAt, 1, "an RC queue pair is not placed")
		}
	}
}
