//go:build linux

package soft

import (
	"math"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func newAccessLimit() (a *accessLimit, now *time.Time) {
	now = new(time.Time)
	*now = time.Unix(1_000_000, 0)
	return &accessLimit{clock: func() time.Time { return *now }, counts: new(counters.Set)}, now
}

// After freeAccessErrors errors, each further error makes the source wait before its next
// connection. The first wait is minAccessWait. Each further wait is twice as long as the
// one before it, up to maxAccessWait.
func TestAccessErrorsMakeASourceWait(t *testing.T) {
	a, now := newAccessLimit()
	bad, good := remoteSource(netip.MustParseAddr("10.0.0.1")), remoteSource(netip.MustParseAddr("10.0.0.2"))
	for range freeAccessErrors {
		a.countFailure(bad)
		require.False(t, a.refuses(bad))
	}
	var waits []time.Duration
	for range 12 {
		a.countFailure(bad)
		a.countFailure(bad) // The second error falls into the wait and does not make the wait longer.
		require.False(t, a.refuses(good))
		begin := *now
		for a.refuses(bad) {
			*now = now.Add(time.Second / 2)
		}
		waits = append(waits, now.Sub(begin))
	}
	for i, wait := range waits {
		require.Equal(t, min(minAccessWait<<i, maxAccessWait), wait)
	}
	require.Positive(t, a.counts[counters.AccessRefused].Load())

	*now = now.Add(accessRecordTTL)
	a.countFailure(bad)
	require.False(t, a.refuses(bad), "the record has expired")
}

// There are never more than maxAccessSources records. When other sources need records, a
// source that has to wait keeps its record.
func TestAccessSourcesAreBounded(t *testing.T) {
	a, now := newAccessLimit()
	bad := localSource(math.MaxUint32-1, 0)
	for range freeAccessErrors + 1 {
		a.countFailure(bad)
	}
	for i := range 3 * maxAccessSources {
		*now = now.Add(time.Microsecond)
		a.countFailure(remoteSource(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})))
		require.LessOrEqual(t, len(a.sources), maxAccessSources)
	}
	require.True(t, a.refuses(bad))
	*now = now.Add(2 * accessRecordTTL)
	a.countFailure(bad)
	require.Len(t, a.sources, 1, "the expired records are removed")
}

// A peer that has a /48 prefix, and takes an address of another /64 network in it for
// each attempt, has to wait as if it had a single address.
func TestAccessErrorsOfASite(t *testing.T) {
	a, _ := newAccessLimit()
	network := func(i int) accessSource {
		b := netip.MustParseAddr("2001:db8::1").As16()
		b[6], b[7] = byte(i>>8), byte(i)
		return remoteSource(netip.AddrFrom16(b))
	}
	guesses := 0
	for i := range 16 * maxAccessSources {
		for range freeAccessErrors {
			if !a.refuses(network(i)) {
				guesses++
				a.countFailure(network(i))
			}
		}
	}
	require.Equal(t, freeAccessErrors+1, guesses)
	require.Len(t, a.sources, 1)
	require.False(t, a.refuses(remoteSource(netip.MustParseAddr("2001:db8:1::1"))), "another site")
}

func TestAccessSources(t *testing.T) {
	at := func(s string) accessSource { return remoteSource(netip.MustParseAddr(s)) }
	require.Equal(t, at("10.0.0.1"), at("::ffff:10.0.0.1"))
	require.NotEqual(t, at("10.0.0.1"), at("10.0.0.2"))
	require.Equal(t, at("2001:db8::1"), at("2001:db8::ffff:1"), "one network")
	require.Equal(t, at("2001:db8::1"), at("2001:db8:0:1::1"), "one site")
	require.NotEqual(t, at("2001:db8::1"), at("2001:db8:1::1"))
	own, other := uint32(os.Geteuid()), uint32(os.Geteuid())+1
	require.NotEqual(t, localSource(own, 1), localSource(own, 2))
	require.Equal(t, localSource(other, 1), localSource(other, 2), "all processes of another user")
	require.NotEqual(t, localSource(other, 1), localSource(other+1, 1))
}

// guess sends a WRITE with a key that no memory region of the peer has. This ends the
// connection.
func guess(t *testing.T, client *party, active *cm.ID) {
	t.Helper()
	_, err := active.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendInline | verbs.SendSignaled,
		Inline: []byte("guess"), RemoteAddr: 1 << 40, RKey: 12345}})
	require.NoError(t, err)
	require.Equal(t, verbs.StatusRemAccessErr, completions(t, client.cq, 1)[0].Status)
}

// The server refuses connections of a local process that has guessed too many keys, and
// accepts its connections again after the wait.
func TestGuessingKeysOnTheLocalPath(t *testing.T) {
	client, server := newParty(t), newParty(t)
	now := time.Unix(1_000_000, 0)
	server.p.dev.access.clock = func() time.Time { return now }
	l := server.listen(cm.TCP, "127.0.0.1:0", 0)
	for range freeAccessErrors + 1 {
		active, passive := connectTo(client, server, l)
		guess(t, client, active)
		client.end(active)
		server.end(passive)
	}
	refused := client.connecting(cm.TCP, l.LocalAddr(), nil)
	awaitReadable(t, server.ch.FD())
	server.quiet()
	wantRejected(client, refused, cm.RejectNoResources, false, nil)
	require.EqualValues(t, 1, server.p.dev.local[counters.AccessRefused].Load())

	now = now.Add(minAccessWait)
	connectTo(client, server, l)
}

// The server refuses connections of a host on the wire path that has guessed too many
// keys.
func TestGuessingKeysOnTheWire(t *testing.T) {
	w := newMADSim(t)
	w.server.p.dev.access.clock = func() time.Time { return w.clock.now }
	for range freeAccessErrors + 1 {
		active, passive := w.connected()
		guess(t, w.client, active)
		w.disconnected(active, passive)
	}
	l := w.listen(cm.TCP, 0)
	// The first wait is over. One more error starts the second wait.
	w.server.p.dev.access.countFailure(remoteSource(clientAddr))
	refused := w.connecting(cm.TCP, l.LocalAddr(), nil)
	require.Equal(t, int(cm.RejectNoResources), w.want(w.client, cm.Rejected, refused).Status)
	w.server.quiet()
	require.Equal(t, wire.AttrREJ, w.sent[len(w.sent)-1])
	require.EqualValues(t, 1, w.server.p.dev.local[counters.AccessRefused].Load())

	w.clock.now = w.clock.now.Add(maxAccessWait)
	active := w.connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := w.request(l)
	w.accept(passive, nil)
	w.want(w.client, cm.Established, active)
	w.want(w.server, cm.Established, passive)
}
