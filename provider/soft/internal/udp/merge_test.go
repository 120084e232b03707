//go:build linux

package udp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

func TestMergingStates(t *testing.T) {
	m := merging{state: mergeOff, wait: firstMergeWait}
	repeat := func(times, datagrams, packets int) {
		t.Helper()
		state := m.state
		for range times - 1 {
			require.False(t, m.received(datagrams, packets))
		}
		require.Equal(t, state, m.state)
		require.True(t, m.received(datagrams, packets))
		require.NotEqual(t, state, m.state)
	}
	for range 1000 {
		require.False(t, m.received(manyDatagrams-1, manyDatagrams-1), "few datagrams are no burst")
	}
	repeat(firstMergeWait, manyDatagrams, manyDatagrams)
	require.Equal(t, mergeOn, m.state)

	repeat(maxUnmergedCalls, 4, 4)
	require.Equal(t, mergeOff, m.state)
	repeat(2*firstMergeWait, 32, 32)
	require.Equal(t, mergeOn, m.state, "after twice the wait, because merging was useless")

	require.False(t, m.received(1, 2))
	repeat(maxUnmergedCalls, 1, 1)
	repeat(2*firstMergeWait, 32, 32)
	for range 100 {
		m.stop(true)
		m.enter(mergeOn, true)
	}
	require.Equal(t, maxMergeWait, m.wait)

	m.state = mergeNever
	for range 1000 {
		require.False(t, m.received(32, 32))
	}
}

// mergedRig returns a rig whose receiver lets the kernel merge packets.
func mergedRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	r.merge()
	return r
}

// merge lets the kernel merge packets that arrive later.
func (r *rig) merge() {
	r.recv.mayMerge(func(qpn uint32) bool { return qpn == 0x123 })
	require.Equal(r.t, mergeOff, r.recv.merging.state, "every supported kernel has UDP_GRO")
	r.recv.merging.enter(mergeOn, true)
	r.recv.changeMerging()
}

// Merged packets arrive in order and unchanged.
func TestReceiveMerged(t *testing.T) {
	for _, r := range []*rig{newRig(t, "127.9.0.1", "127.9.0.2"), oneSocket(t, "::1")} {
		r.merge()
		sizes := []int{4096, 4096, 4096, 100, 0, 3}
		for range 40 {
			sizes = append(sizes, 256)
		}
		r.carry(true, append(sizes, 64))
		require.NotNil(t, r.recv.merged)
		require.Zero(t, r.recv.merging.calls, "there were merged packets")
	}
}

// After several bursts the receiver lets the kernel merge packets.
func TestReceiverBeginsToMerge(t *testing.T) {
	r := newRig(t, "127.9.0.1", "127.9.0.2")
	r.recv.mayMerge(func(uint32) bool { return true })
	burst := func() (calls int) {
		for range 16 {
			r.queue(64)
		}
		r.flush()
		got := &basket{}
		for r.recv.receive(got) > 0 {
			calls++
		}
		require.Len(t, got.sizes, 16)
		return calls
	}
	for range firstMergeWait {
		burst()
	}
	require.Equal(t, mergeOn, r.recv.merging.state)
	require.Equal(t, 1, burst())
	require.EqualValues(t, 16*(firstMergeWait+1), r.count(counters.RcvdPkts))
}

// If one of several merged packets is damaged, only this packet is dropped.
func TestReceiveMergedDamage(t *testing.T) {
	r := mergedRig(t)
	for range 5 {
		r.queue(64)
	}
	messages := r.send.gather(&r.send.shared, 0)
	require.Equal(t, 1, messages)
	r.send.packets[2].Payload()[7] ^= 1
	_, err := r.send.batch.send(r.send.shared.fd, messages)
	require.NoError(t, err)
	require.Len(t, r.received().sizes, 4)
	require.EqualValues(t, 1, r.count(counters.RxICRCEncapsulated))
}

// The receiver stops merging if merged packets are for several shards.
func TestReceiveMergedForAnotherShard(t *testing.T) {
	r := mergedRig(t)
	r.queue(64)
	r.flush()
	picky := &onlyQP{qpn: 0x124}
	require.Equal(t, 1, r.recv.receive(picky))
	require.Equal(t, mergeOn, r.recv.merging.state, "the queue pair belonged to this shard")
	picky.qpn = 0x123
	p := wire.Build(r.send.buffer(), wire.SendOnly, 64)
	p.BTH().SetDestQP(0x200)
	p.BTH().SetPSN(psn.New(1))
	r.send.put(p, r.to, 0)
	r.flush()
	require.Equal(t, 1, r.recv.receive(picky))
	require.Equal(t, mergeOff, r.recv.merging.state)
	require.EqualValues(t, 2, r.count(counters.RcvdNoQPErr))
	r.queue(64)
	r.flush()
	require.Equal(t, []int{64}, r.received().sizes)
}

// An onlyQP is a Sink with one queue pair.
type onlyQP struct{ qpn uint32 }

func (o *onlyQP) Receive(p wire.Packet, _ *Header) bool { return p.BTH().DestQP() == o.qpn }
