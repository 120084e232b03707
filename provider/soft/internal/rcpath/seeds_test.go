//go:build linux

package rcpath

import (
	"bytes"
	goflag "flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var seedFlag = goflag.Uint64("seed", 0, "run only this seed of the simulated network")

// A simCase is a test case of the simulation. Its functions choose the network's faults
// and the retry parameters at random.
type simCase struct {
	name  string
	seeds int
	net   func(*rand.Rand) netsim.Config
	attr  func(*rand.Rand, *verbs.QPAttr)
	fails bool // true: a connection must fail; false: no connection may fail
}

func fraction(r *rand.Rand, most float64) float64 { return r.Float64() * most }

var simCases = []simCase{{
	name: "rough", seeds: 1500,
	net: func(r *rand.Rand) netsim.Config {
		return netsim.Config{
			Drop: fraction(r, 0.05), Duplicate: fraction(r, 0.1), Corrupt: fraction(r, 0.03), Reorder: fraction(r, 0.1),
			Delay: time.Duration(r.IntN(50)) * time.Microsecond, Jitter: time.Duration(r.IntN(500)) * time.Microsecond,
		}
	},
	attr: func(*rand.Rand, *verbs.QPAttr) {},
}, {
	name: "hopeless", seeds: 500, fails: true,
	net: func(r *rand.Rand) netsim.Config {
		return netsim.Config{Drop: 0.2 + fraction(r, 0.6), Duplicate: 0.1, Corrupt: 0.05, Reorder: 0.2, Jitter: time.Millisecond}
	},
	attr: func(r *rand.Rand, attr *verbs.QPAttr) {
		attr.RetryCount, attr.RNRRetry = uint8(r.IntN(4)), uint8(r.IntN(4))
	},
}, {
	name: "late duplicates", seeds: 500,
	net: func(r *rand.Rand) netsim.Config {
		// The jitter exceeds the ACK timeout. So a duplicate may arrive after the packet was
		// sent again.
		return netsim.Config{Drop: 0.02, Duplicate: 0.5, Reorder: 0.02, Delay: 20 * time.Microsecond, Jitter: 20 * time.Millisecond}
	},
	attr: func(_ *rand.Rand, attr *verbs.QPAttr) { attr.Timeout = 10 },
}, {
	name: "narrow", seeds: 300,
	net: func(r *rand.Rand) netsim.Config {
		return netsim.Config{Limit: 8 + r.IntN(60), Delay: time.Duration(r.IntN(50)) * time.Microsecond}
	},
	attr: func(*rand.Rand, *verbs.QPAttr) {},
}}

// Every request is executed once and in order, whatever the network does. Otherwise the
// connection fails, with errors for its requests.
func TestWireSeeds(t *testing.T) {
	for _, c := range simCases {
		t.Run(c.name, func(t *testing.T) {
			failures := 0
			seeds := c.seeds / qptest.SeedDivisor
			if testing.Short() {
				seeds /= 5
			}
			for seed := uint64(1); seed <= uint64(seeds); seed++ {
				if *seedFlag != 0 {
					seed = *seedFlag
				}
				ok := t.Run("seed", func(t *testing.T) { failures += c.run(t, seed) })
				require.True(t, ok, "run it again with -run %q -seed %d", t.Name(), seed)
				if *seedFlag != 0 {
					return
				}
			}
			require.Equal(t, c.fails, failures > 0, "%d connections have failed", failures)
		})
	}
}

// run exchanges random messages between two ends. It returns how many ends have failed.
func (c *simCase) run(t *testing.T, seed uint64) (failures int) {
	r := rand.New(rand.NewPCG(seed, 1))
	s := newSim(t, seed, c.net(r))
	mtu := verbs.MTU256 + verbs.MTU(r.IntN(5))
	depth, first := uint8(1+r.IntN(4)), r.Uint32N(64)
	sides := [2]*modelEnd{newModelEnd(s.NewEnd(), seed, 10+r.IntN(50), mtu), newModelEnd(s.NewEnd(), seed+1, r.IntN(50), mtu)}
	sides[0].peer, sides[1].peer = sides[1], sides[0]
	s.Join(sides[0].e, sides[1].e, func(attr *verbs.QPAttr) {
		attr.PathMTU, attr.MaxRdAtomic, attr.MaxDestRdAtomic = mtu, depth, depth
		attr.RQPSN, attr.SQPSN = 0xffffff-first, 0xffffff-first
		attr.MinRNRTimer = 1 + uint8(seed%12)
		c.attr(r, attr)
	})
	for i, side := range sides {
		l, peer := connOf(side.e.QP), connOf(sides[1-i].e.QP)
		// Like rxe, a peer may agree to flow control and then advertise no credits.
		peer.credits.Receives = seed>>i&1 != 0
		l.credits.Sends = peer.credits.Receives && seed>>(2+i)&1 == 0
	}
	for range qptest.SimLimit {
		for _, side := range sides {
			side.postSome()
		}
		if !s.Step() && sides[0].finished() && sides[1].finished() {
			break
		}
		for _, side := range sides {
			side.checkCompletions()
		}
	}
	for _, side := range sides {
		require.True(t, side.finished(), "the requests do not complete")
		if side.failed {
			failures++
			continue
		}
		if !side.peer.failed {
			require.Equal(t, len(side.expected), side.peer.received)
		}
	}
	require.True(t, c.fails || failures == 0, "a connection has failed in a network in which none should fail")
	return failures
}

// Messages of 1 MiB arrive completely although the network loses packets.
func TestWireBulkSeeds(t *testing.T) {
	const size = 1 << 20
	for seed := uint64(1); seed <= 6; seed++ {
		s := newSim(t, seed, netsim.Config{Drop: 0.005, Duplicate: 0.01, Corrupt: 0.002, Reorder: 0.01, Delay: 20 * time.Microsecond, Jitter: 100 * time.Microsecond})
		a, b := s.NewEnd(), s.NewEnd()
		s.Join(a, b, func(attr *verbs.QPAttr) {
			attr.PathMTU = verbs.MTU256 + verbs.MTU(seed%3)
			attr.RQPSN, attr.SQPSN = 0xffff00, 0xffff00
		})
		for id, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
			src, dst := a.MR.Bytes()[:size], b.MR.Bytes()[size:][:size]
			local, remote := verbs.SGEOf(a.MR, 0, size), b.MR.Addr()+size
			if op == verbs.OpRead {
				src, dst = b.MR.Bytes()[size:][:size], a.MR.Bytes()[:size]
			}
			fill(src, seed*8+uint64(id))
			b.Recv(9, size, size)
			a.Post(verbs.SendWR{ID: uint64(id), Opcode: op, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{local}, RemoteAddr: remote, RKey: b.MR.RKey()})
			s.Settle()
			got := a.DrainCQ()
			require.Len(t, got, 1)
			require.Equal(t, verbs.StatusSuccess, got[0].Status, "seed %d, %v", seed, op)
			require.True(t, bytes.Equal(src, dst), "seed %d, %v", seed, op)
		}
		require.Len(t, b.DrainCQ(), 1, "one SEND")
		require.Greater(t, s.Net.Stats.Dropped, 10)
	}
}
