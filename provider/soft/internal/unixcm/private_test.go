//go:build linux

package unixcm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
)

// sizes returns the lengths of private data to test: zero, one, and the largest length
// for the message m.
func sizes(ps cm.PortSpace, m cm.Message) [3]int { return [3]int{0, 1, cm.MaxPrivateData(ps, m)} }

// lend passes n bytes of private data to call(). After the call, lend overwrites these
// bytes. It returns a copy of the original bytes.
func lend(t *testing.T, n int, call func(*cm.ConnParam) error) (want []byte) {
	t.Helper()
	want = bytes.Repeat([]byte{'x', 0}, n)[:n]
	lent := bytes.Clone(want)
	require.NoError(t, call(&cm.ConnParam{PrivateData: lent}))
	clear(lent)
	return want
}

// Private data of each length arrives with the contents that it had at the time of the
// call. Events of other messages have no private data.
func TestPrivateData(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		for i := range 3 {
			client, server := newParty(t), newParty(t)
			l := server.Listen(ps, "127.0.0.1:0", 0)
			active := client.Resolved(ps, l.LocalAddr())
			client.CreateQP(active)
			question := lend(t, sizes(ps, cm.MessageConnect)[i], active.Connect)
			passive, ev := server.Request(l)
			require.Equal(t, string(question), string(ev.Param.PrivateData))

			server.CreateQP(passive)
			answer := lend(t, sizes(ps, cm.MessageAccept)[i], passive.Accept)
			require.Equal(t, string(answer), string(client.Want(cm.Established, active).Param.PrivateData))
			if ps == cm.TCP {
				require.Empty(t, server.Want(cm.Established, passive).Param.PrivateData)
				require.NoError(t, active.Disconnect())
				require.Empty(t, server.Want(cm.Disconnected, passive).Param.PrivateData)
				require.NoError(t, passive.Disconnect())
				require.Empty(t, client.Want(cm.Disconnected, active).Param.PrivateData)
			}
		}
	})
}
