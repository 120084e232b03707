//go:build linux

package reactor_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// connectTimed is connect for one path, with the option MessageTime on both sides.
func connectTimed(t *testing.T, path soft.Path, client, server *hooks) *pair {
	t.Helper()
	p, port := &pair{}, freeport.UDP(t)
	watch(client, &p.dialed, &p.dialCloseErr, &p.dialCloses)
	watch(server, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
	p.server, p.client = pathLoop(t, path, port, server, nil), pathLoop(t, path, port, client, nil)
	ln, err := p.server.Engine().Listen(loopback, &reactor.ListenOptions{MessageTime: true})
	require.NoError(t, err)
	o := &reactor.DialOptions{MessageTime: true}
	if path == soft.PathWire {
		o.LocalAddr = netip.MustParseAddrPort("127.0.0.2:0")
	}
	require.NoError(t, p.client.Engine().Dial(ln.Addr(), o))
	p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
	return p
}

// eachPath runs a test for both paths.
func eachPath(t *testing.T, test func(t *testing.T, path soft.Path)) {
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		t.Run(path.String(), func(t *testing.T) { test(t, path) })
	}
}

// TestMessageTimeOfTheSystem checks that the times of messages that follow one another are
// between the call of Send and OnMessage, and increase. On the wire path they are those of the
// kernel: of arrival, before the loop runs. On a busy host a packet may arrive later, and for
// some milliseconds after the first socket wants times the kernel has only those of reading.
func TestMessageTimeOfTheSystem(t *testing.T) {
	eachPath(t, func(t *testing.T, path soft.Path) {
		var got []timedMessage
		server := &hooks{message: func(_ *reactor.Conn, m reactor.Message) {
			got = append(got, timedMessage{len(m.Data()), m.Time(), time.Now()})
		}}
		p := connectTimed(t, path, &hooks{}, server)
		last := time.Time{}
		for _, size := range []int{verbs.InlineBytes, verbs.InlineBytes + 1, 4096} {
			early, limit := 0, time.Now().Add(testTimeout)
			for i := 0; i < 100 || path == soft.PathWire && early == 0 && last.Before(limit); i++ {
				before := time.Now()
				require.NoError(t, p.dialed.Send(make([]byte, size), nil))
				_, err := p.client.RunOnce(0)
				require.NoError(t, err)
				turn := time.Now()
				got = nil
				p.drive(t, func() bool { return len(got) > 0 })
				m := got[0]
				require.GreaterOrEqual(t, m.time.Sub(before), time.Duration(0))
				require.LessOrEqual(t, m.time.Sub(m.now), time.Duration(0))
				require.Positive(t, m.time.Sub(last))
				if last = m.time; m.time.Before(turn) {
					early++
				}
			}
			require.Equal(t, path == soft.PathWire, early > 0)
		}
	})
}

// TestMessageTimeOfABurst checks the times of messages that are sent together. On the local path
// they arrive in one turn, and have the same time.
func TestMessageTimeOfABurst(t *testing.T) {
	eachPath(t, func(t *testing.T, path soft.Path) {
		var got []int64
		p := connectTimed(t, path, &hooks{}, &hooks{message: func(_ *reactor.Conn, m reactor.Message) {
			got = append(got, m.Time().UnixNano())
		}})
		for range 100 {
			got = nil
			before := time.Now().UnixNano()
			for range 10 {
				require.NoError(t, p.dialed.Send(make([]byte, 64), nil))
			}
			_, err := p.client.RunOnce(0)
			require.NoError(t, err)
			p.drive(t, func() bool { return len(got) == 10 })
			require.GreaterOrEqual(t, slices.Min(got), before)
			require.LessOrEqual(t, slices.Max(got), time.Now().UnixNano())
			if path == soft.PathLocal {
				require.Equal(t, slices.Min(got), slices.Max(got))
			}
		}
	})
}

// TestMessageTimeDoesNotAllocate checks that messages with times, and their echoes, allocate
// nothing.
func TestMessageTimeDoesNotAllocate(t *testing.T) {
	eachPath(t, func(t *testing.T, path soft.Path) {
		for _, size := range []int{64, 2000} {
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				echoes, last := 0, time.Time{}
				p := connectTimed(t, path,
					&hooks{message: func(_ *reactor.Conn, m reactor.Message) { echoes, last = echoes+1, m.Time() }},
					&hooks{message: func(c *reactor.Conn, m reactor.Message) { _, _ = m.Time(), c.Send(m.Data(), nil) }})
				message := make([]byte, size)
				round := func() {
					_ = p.dialed.Send(message, nil)
					for want := echoes + 1; echoes < want; {
						_, _ = p.client.RunOnce(0)
						_, _ = p.server.RunOnce(0)
					}
				}
				for range 1000 {
					round() // slices, slabs and batches still grow in the first rounds
				}
				require.Zero(t, testing.AllocsPerRun(1000, round))
				require.False(t, last.IsZero())
			})
		}
	})
}
