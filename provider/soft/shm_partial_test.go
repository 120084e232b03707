//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// On the local path too, the RNR NAK of a refusal has a longer time than MinRNRTimer.
func TestRefusalMakesTheSenderWait(t *testing.T) {
	// One source may hold 8 of the 64 buffers with incomplete messages.
	const buffers, share = 64, 8
	d := newMemoryDevice(t, memoryConfig{})
	first := newEnd(t, d, 0, verbs.ProgressManual)
	queue, err := first.pd.CreateSRQ(&verbs.SRQAttr{CQ: first.cq, MaxWR: buffers, MaxSGE: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, queue.Close()) })
	for range buffers {
		_, err := queue.PostRecv([]verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(first.mr, 0, endSize)}}})
		require.NoError(t, err)
	}
	victims, attackers := first.more(buffers, queue), newEnd(t, d, 1, verbs.ProgressManual).more(buffers, nil)
	for i, victim := range victims {
		attackers[i].connect(victim, nil)
		victim.connect(attackers[i], nil)
		becomeReady(attackers[i], victim)
		connOf(victim).source = access.LocalSource(77, 0)
	}
	for _, attacker := range attackers[:share] {
		publish(attacker, fragment.Fragment{Op: fragment.Send, Flags: fragment.First, Length: 1})
	}
	sender := attackers[share]
	advance := sender.stopClock()
	sender.send(1, 20_000)
	first.pollN(3)
	sender.pollN(1)
	require.True(t, sender.qp.awaitsRNRTimer())
	// A refusal adds 4 to the code of MinRNRTimer.
	wait := verbs.RNRDelay(victims[share].qp.attributes().MinRNRTimer + 4)
	advance(wait - 1)
	sender.pollForTimers()
	require.True(t, sender.qp.awaitsRNRTimer())
	advance(1)
	sender.pollForTimers()
	require.False(t, sender.qp.awaitsRNRTimer())
}
