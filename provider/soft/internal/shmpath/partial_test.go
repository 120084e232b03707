//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// On the local path too, the RNR NAK of a refusal has a longer time than MinRNRTimer.
func TestRefusalMakesTheSenderWait(t *testing.T) {
	// One source may hold 8 of the 64 buffers with incomplete messages.
	const buffers, share = 64, 8
	d := newMemoryDevice(t, memoryConfig{})
	first := qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	queue, err := first.PD.CreateSRQ(&verbs.SRQAttr{CQ: first.CQ, MaxWR: buffers, MaxSGE: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, queue.Close()) })
	for range buffers {
		_, err := queue.PostRecv([]verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(first.MR, 0, qptest.EndSize)}}})
		require.NoError(t, err)
	}
	victims, attackers := first.More(buffers, queue), qptest.NewEnd(t, d, 1, verbs.ProgressManual).More(buffers, nil)
	for i, victim := range victims {
		attackers[i].Connect(victim, nil)
		victim.Connect(attackers[i], nil)
		qptest.BecomeReady(attackers[i], victim)
		connOf(victim).source = access.LocalSource(77, 0)
	}
	for _, attacker := range attackers[:share] {
		publish(attacker, fragment.Fragment{Op: fragment.Send, Flags: fragment.First, Length: 1})
	}
	sender := attackers[share]
	advance := sender.StopClock()
	sender.Send(1, 20_000)
	first.PollN(3)
	sender.PollN(1)
	require.True(t, sender.QP.AwaitsRNRTimer())
	// A refusal adds 4 to the code of MinRNRTimer.
	wait := verbs.RNRDelay(victims[share].QP.Attributes().MinRNRTimer + 4)
	advance(wait - 1)
	sender.PollForTimers()
	require.True(t, sender.QP.AwaitsRNRTimer())
	advance(1)
	sender.PollForTimers()
	require.False(t, sender.QP.AwaitsRNRTimer())
}
