//go:build linux

package soft

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// randomWrites is the number of bytes that peerRandomWriter writes while it posts
// requests, and again afterwards. Arbitrary.
const randomWrites = 200_000

// peerRandomWriter is the function of a peer process. It connects to the parameter
// address, which has an IP address and a port. Then it writes random bytes to the
// connection's shared memory. The seed of the random numbers is the port.
func peerRandomWriter(t *testing.T, address string) {
	at := netip.MustParseAddrPort(address)
	s := newParty(t)
	id := s.Connecting(cm.TCP, at, nil)
	s.Want(cm.Established, id)
	r := rand.New(rand.NewPCG(uint64(at.Port()), 2))
	mem := endOf(s, id).Segment.Mem
	for range randomWrites / 1000 {
		qptest.WriteRandom(r, mem, 1000)
		_, _ = id.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")}})
	}
	qptest.WriteRandom(r, mem, randomWrites)
	peerproc.Say("ready")
	peerproc.Linger()
}

// A peer process writes invalid values to the shared memory. Only its own connection may
// fail. Another connection on the same CQ still works.
func TestRandomWriterProcess(t *testing.T) {
	s := newHostParty(t)
	honest, victim := connected(t, s, s)
	l := s.Listen(cm.TCP, "127.0.0.1:0", 0)
	line, kill := peerproc.Start(t, "random-writer", l.LocalAddr().String())
	attacked, _ := s.Request(l)
	s.CreateQP(attacked)
	mr, err := s.PD.Alloc(&verbs.AllocAttr{Size: 1 << 16, Access: verbs.AccessAll})
	require.NoError(t, err)
	defer func() { require.NoError(t, mr.Close()) }()
	post := func(q verbs.QP, id uint64, at int) error {
		_, err := q.PostRecv([]verbs.RecvWR{{ID: id, SGEs: []verbs.SGE{verbs.SGEOf(mr, at, 64)}}})
		return err
	}
	for range 8 {
		require.NoError(t, post(attacked.QP(), 1, 4096))
	}
	require.NoError(t, attacked.Accept(nil))

	for round := range 3000 {
		if round == 2000 {
			// The writer prints "ready" after its last write to the shared memory.
			require.Equal(t, "ready", line())
		}
		// This request and buffer make the attacked queue pair use the shared memory.
		// The calls may fail.
		_, _ = attacked.QP().PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("to the writer")}})
		_ = post(attacked.QP(), 1, 4096)
		require.NoError(t, post(victim.QP(), 100, 0))
		text := "round " + strconv.Itoa(round)
		_, err := honest.QP().PostSend([]verbs.SendWR{{ID: 200, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte(text)}})
		require.NoError(t, err)
		for honestly := 0; honestly < 2; {
			for _, wc := range completions(t, s.CQ, 1) {
				if wc.QPN == honest.QP().Num() || wc.QPN == victim.QP().Num() {
					require.Equal(t, verbs.StatusSuccess, wc.Status)
					honestly++
				}
			}
		}
		require.Equal(t, text, string(mr.Bytes()[:len(text)]))
	}
	kill()
}
