//go:build linux

package rcpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// neighbours are two connections from one shard to one host. They share a congestion
// window. The peer of the second connection misbehaves.
type neighbours struct {
	*qptest.Sim
	// In each array, element 0 is this side's end, and element 1 is the peer's end.
	honest, second [2]*qptest.End
	started        int // number of messages that are outstanding on the second connection
}

func newNeighbours(t *testing.T) *neighbours {
	n := &neighbours{Sim: newSim(t, 1, netsim.Config{Delay: 50 * time.Microsecond})}
	for i := range 2 {
		n.honest[i] = n.NewEnd()
		n.second[i] = qptest.NewEnd(t, n.Dev, i, verbs.ProgressManual)
	}
	n.Join(n.honest[0], n.honest[1])
	n.Join(n.second[0], n.second[1])
	return n
}

const (
	shareMessages = 1000 / min(qptest.SeedDivisor, 2)
	shareSize     = 128 << 10 // length of a message in bytes; a message has 32 packets
)

func write(from, to *qptest.End, id int) {
	from.Post(verbs.SendWR{ID: uint64(id), Opcode: verbs.OpWrite, Flags: verbs.SendSignaled,
		SGEs: []verbs.SGE{verbs.SGEOf(from.MR, 0, shareSize)}, RemoteAddr: to.MR.Addr(), RKey: to.MR.RKey()})
}

// run makes both connections send, until the honest connection has completed
// shareMessages messages. It returns how much virtual time has passed.
func (n *neighbours) run() time.Duration {
	begin, posted, done := n.Now, 0, 0
	for range qptest.SimLimit {
		for posted < shareMessages && posted-done < 64 {
			write(n.honest[0], n.honest[1], posted)
			posted++
		}
		for ; n.started < 64; n.started++ {
			write(n.second[0], n.second[1], n.started)
		}
		for _, e := range []*qptest.End{n.honest[0], n.second[0]} {
			for _, wc := range e.DrainCQ() {
				require.Equal(n.T, verbs.StatusSuccess, wc.Status)
				if wc.QPN == n.honest[0].QP.Num() {
					done++
				} else {
					n.started--
				}
			}
		}
		if done == shareMessages {
			return time.Duration(n.Now - begin)
		}
		n.Step()
	}
	require.FailNow(n.T, "the messages do not complete")
	return 0
}

// A peer that fakes losses slows down its own connection. Another connection to the same
// address keeps at least two thirds of its throughput.
func TestWireFakedLossesSlowOwnConnOnly(t *testing.T) {
	fair := newNeighbours(t).run()

	n := newNeighbours(t)
	seen, faked := 0, 0
	n.Lose = func(p wire.Packet) bool {
		if p.BTH().DestQP() != n.second[1].QP.Num() {
			return false
		}
		seen++
		if seen%8 == 0 {
			faked++
			return true
		}
		return false
	}
	beside := n.run()
	require.Greater(t, faked, 50)
	t.Logf("beside an honest connection %v, beside one that fakes %d losses %v", fair, faked, beside)
	require.Less(t, beside, fair*3/2, "the honest connection keeps two thirds of its throughput")
}

// A peer that acknowledges late slows down its own connection. Another connection to the
// same address keeps its share of the window.
func TestWireLateAcksSlowOwnConnOnly(t *testing.T) {
	narrow := func() *neighbours {
		n := newNeighbours(t)
		for _, e := range []*qptest.End{n.honest[0], n.second[0]} {
			l := connOf(e.QP)
			l.cong.ssthresh = l.cong.shared.window
		}
		return n
	}
	fair := narrow().run()

	n := narrow()
	n.Late = func(p wire.Packet) time.Duration {
		if p.BTH().DestQP() == n.second[0].QP.Num() {
			return 10 * time.Millisecond
		}
		return 0
	}
	beside := n.run()
	t.Logf("beside an honest connection %v, beside one that acknowledges late %v", fair, beside)
	require.Less(t, beside, 2*fair, "the honest connection keeps half of its throughput")
}

// All connections to a host that does not answer fail in the time of one connection,
// although only one of them has a READ in flight: its response fills the window.
func TestWireConnsToSilentHostFailTogether(t *testing.T) {
	n := newNeighbours(t)
	n.Lose = func(wire.Packet) bool { return true }
	var failed [2]time.Duration
	begin := n.Now
	for i, ends := range [][2]*qptest.End{n.honest, n.second} {
		from, to := ends[0], ends[1]
		from.Post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
			SGEs: []verbs.SGE{verbs.SGEOf(from.MR, 0, shareSize)}, RemoteAddr: to.MR.Addr(), RKey: to.MR.RKey()})
	}
	require.False(t, n.second[0].QP.Outstanding())
	for range qptest.SimLimit {
		for i, e := range []*qptest.End{n.honest[0], n.second[0]} {
			for _, wc := range e.DrainCQ() {
				require.Equal(t, verbs.StatusRetryExcErr, wc.Status)
				require.EqualValues(t, i, wc.ID)
				failed[i] = time.Duration(n.Now - begin)
			}
		}
		if failed[0] > 0 && failed[1] > 0 {
			break
		}
		n.Step()
	}
	attr := n.honest[0].QP.Attributes()
	limit := verbs.AckTimeout(attr.Timeout) * time.Duration(attr.RetryCount+1)
	for _, after := range failed {
		require.Greater(t, after, limit/2)
		require.Less(t, after, limit*3/2)
	}
}
