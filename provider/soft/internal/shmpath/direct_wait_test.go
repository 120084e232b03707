//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A long READ behind a SEND waits until the SEND was executed. Then the requester
// executes the READ itself. Requests behind the READ stay behind it.
func TestLongReadAwaitsDirectExecution(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	b.Recv(1, 8, 8)
	b.Recv(2, 8, 8)
	slots := connOf(a).p.sent.seq
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	a.Post(a.Remote(verbs.OpRead, b, maxDirect))
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	require.Empty(t, a.PollN(100), "the first SEND was not executed")
	copy(b.MR.Bytes(), "read")
	got := b.PollN(10)
	require.Len(t, got, 1, "the second SEND is behind the READ")
	got = a.PollN(1)
	require.Len(t, got, 1)
	require.EqualValues(t, 7, got[0].ID)
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.Equal(t, "read", string(a.MR.Bytes()[:4]))
	require.EqualValues(t, 2, a.Wait(1, b)[0].ID)
	require.Equal(t, slots+2, connOf(a).p.sent.seq, "the READ takes no slot")
}

// A long READ that waits behind a refused SEND completes after the SEND.
func TestLongReadAwaitsRefusedSend(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	a.Post(a.Remote(verbs.OpRead, b, maxDirect))
	b.PollN(10)
	require.Empty(t, a.PollN(100), "the SEND was refused")
	b.Recv(1, 8, 8)
	got := a.Wait(2, b)
	require.EqualValues(t, []uint64{1, 7}, []uint64{got[0].ID, got[1].ID})
	require.Equal(t, verbs.StatusSuccess, got[0].Status)
	require.Equal(t, verbs.StatusSuccess, got[1].Status)
}

// A long READ completes behind SENDs that fill the ring several times.
func TestLongReadBehindFullRing(t *testing.T) {
	const slots = 8
	for sends := range 4 * slots {
		a, b := newDirectPair(t, memoryConfig{slots: slots})
		for range sends {
			b.Recv(1, 8, 8)
			a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
		}
		a.Post(a.Remote(verbs.OpRead, b, maxDirect))
		done := false
		for range 1000 {
			b.PollN(1)
			if got := a.PollN(1); len(got) > 0 {
				require.EqualValues(t, 7, got[0].ID)
				done = true
				break
			}
		}
		require.True(t, done, "%d SENDs", sends)
	}
}

// A long READ that waits fails if the peer's queue pair ends.
func TestLongReadAwaitsStoppedPeer(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	a.Post(a.Remote(verbs.OpRead, b, maxDirect))
	b.Fail()
	got := a.Wait(2, b)
	require.Equal(t, verbs.StatusRetryExcErr, got[0].Status)
	require.Equal(t, verbs.StatusWRFlushErr, got[1].Status)
}
