//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestParkedEndIsWoken(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := newEnd(t, d, 0, verbs.ProgressManual)
	b := newSleeper(t, d, 1, verbs.ProgressManual)
	a.connect(b.end, nil)
	b.connect(a, nil)
	for round := range 3 {
		b.recv(uint64(round), 0, 100)
		require.NoError(t, b.cq.Arm(false))
		n, err := b.cq.Poll(b.wc)
		require.NoError(t, err)
		require.Zero(t, n)
		require.False(t, cmside.Readable(t, b.ch.FD()))
		a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("wake")})
		require.True(t, cmside.Readable(t, b.ch.FD()))
		cookie, ok, err := b.ch.Next()
		require.NoError(t, err)
		require.True(t, ok)
		require.EqualValues(t, 7, cookie)
		b.cq.AckEvents(1)
		require.Len(t, b.wait(1), 1)
		_, ok, err = b.ch.Next()
		require.NoError(t, err)
		require.False(t, ok)
		require.False(t, cmside.Readable(t, b.ch.FD()))
	}
}

// A sender with one signaled request sleeps until its acknowledgement arrives.
func TestAckWakesWaitingSender(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := newSleeper(t, d, 0, verbs.ProgressManual)
	b := newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, nil)
	b.connect(a.end, nil)
	b.recv(1, 0, 100)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("x")})
	require.NoError(t, a.cq.Arm(false))
	require.False(t, cmside.Readable(t, a.ch.FD()))
	b.wait(1)
	// A poll of b that finds no work sends the acknowledgement.
	_, err := b.cq.Poll(b.wc)
	require.NoError(t, err)
	a.sleep()
	_, ok, err := a.ch.Next()
	require.NoError(t, err)
	require.True(t, ok)
	a.cq.AckEvents(1)
	require.Equal(t, verbs.StatusSuccess, a.wait(1)[0].Status)
}

// An RNR NAK wakes a sleeping sender, because the sender has to send again. This holds
// even if no request is signaled.
func TestRNRWakesAnUnsignaledSender(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := newSleeper(t, d, 0, verbs.ProgressManual)
	b := newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, nil)
	b.connect(a.end, nil)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")})
	require.NoError(t, a.cq.Arm(false))
	_, err := b.cq.Poll(b.wc) // The end b has no receive buffer, so it sends an RNR NAK.
	require.NoError(t, err)
	b.recv(1, 0, 100)
	for range pollLimit {
		a.sleep() // First the RNR NAK wakes a, and then the RNR timer.
		_, _, err = a.ch.Next()
		require.NoError(t, err)
		n, err := b.cq.Poll(b.wc)
		require.NoError(t, err)
		if n == 1 {
			require.Equal(t, verbs.StatusSuccess, b.wc[0].Status)
			return
		}
	}
}

// Two goroutines exchange messages, and sleep while they wait. Each message wakes its
// receiver.
func TestPingPongAsleep(t *testing.T) {
	for _, progress := range []verbs.Progress{verbs.ProgressManual, verbs.ProgressAuto} {
		t.Run(progress.String(), func(t *testing.T) {
			d := newMemoryDevice(t, memoryConfig{})
			a, b := newSleeper(t, d, 0, progress), newSleeper(t, d, 1, progress)
			a.connect(b.end, nil)
			b.connect(a.end, nil)
			a.recv(0, 0, 64)
			b.recv(0, 0, 64)
			const rounds = 2000
			done := make(chan struct{})
			go func() {
				defer close(done)
				pingPong(b, rounds)
			}()
			a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("serve")})
			pingPong(a, rounds)
			<-done
		})
	}
}

// pingPong answers messages, and sleeps while it waits for the next.
func pingPong(s *sleeper, rounds int) {
	for got := 0; got < rounds; {
		n, err := s.cq.Poll(s.wc)
		require.NoError(s.t, err)
		if n == 0 {
			require.NoError(s.t, s.cq.Arm(false))
			if n, err = s.cq.Poll(s.wc); n == 0 && err == nil {
				s.sleep()
				for ok := true; ok; {
					_, ok, err = s.ch.Next()
					require.NoError(s.t, err)
					if ok {
						s.cq.AckEvents(1)
					}
				}
				continue
			}
		}
		for range n {
			s.recv(0, 0, 64)
			s.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("ball")})
		}
		got += n
	}
}

const (
	// maxPolled is the number of peers without work that a shard polls.
	maxPolled = 8
	// restPolls is a number of polls after which a peer without work is idle.
	restPolls = 1000
)

func TestIdlePeersAreParked(t *testing.T) {
	const pairs = 40
	d := newMemoryDevice(t, memoryConfig{vectors: 1 + pairs})
	as, bs := newStar(t, d, pairs)
	for range 20_000 {
		_, err := bs[0].cq.Poll(nil)
		require.NoError(t, err)
	}
	polled := 0 // number of peers that were not asked to ring
	for _, b := range bs {
		if connOf(b).p.own.WakeFor.Load() == shm.WakeNone {
			polled++
		}
	}
	require.Equal(t, maxPolled, polled)
	for i, a := range as {
		a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("wake")})
		require.EqualValues(t, i, bs[i].wait(1)[0].ID)
		require.Equal(t, verbs.StatusSuccess, a.wait(1, bs[i])[0].Status, "a connection that sends polls for the acknowledgement")
	}
}

// newStar connects n pairs of ends. The first end of each pair has its own shard, and
// the second ends share one shard. Each second end has a receive buffer, whose id is its
// index.
func newStar(t *testing.T, d verbs.Device, n int) (as, bs []*end) {
	for i := range n {
		a, b := newEnd(t, d, i+1, verbs.ProgressManual), newEnd(t, d, 0, verbs.ProgressManual)
		a.connect(b, nil)
		b.connect(a, nil)
		becomeReady(a, b)
		b.recv(uint64(i), 0, 64)
		as, bs = append(as, a), append(bs, b)
	}
	return as, bs
}

// writeAll posts a WRITE without data at each end.
func writeAll(ends []*end) {
	for _, e := range ends {
		e.post(verbs.SendWR{Opcode: verbs.OpWrite})
	}
}

// consumedInPoll polls once, and returns how many slots each of the ends of a shard has
// consumed.
func consumedInPoll(ends []*end) (each []int, sum int) {
	for _, e := range ends {
		each = append(each, -int(connOf(e).p.in.Head))
	}
	ends[0].pollN(1)
	for i, e := range ends {
		each[i] += int(connOf(e).p.in.Head)
		sum += each[i]
	}
	return each, sum
}

// Each call of drive polls all active peers and one idle peer, so idle peers do not slow
// down active ones.
func TestIdlePeersArePolledInTurn(t *testing.T) {
	as, bs := newStar(t, newMemoryDevice(t, memoryConfig{vectors: 1 + maxPolled}), maxPolled)
	bs[0].pollN(restPolls)
	for i, a := range as {
		a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("wake")})
		got := bs[i].pollN(maxPolled)
		require.Len(t, got, 1, "each idle peer is polled in turn")
		require.EqualValues(t, i, got[0].ID)
	}
	for active := range as {
		bs[0].pollN(restPolls)
		writeAll(as[:active])
		bs[0].pollN(2 * maxPolled)
		writeAll(as)
		each, sum := consumedInPoll(bs)
		require.Equal(t, active+1, sum, "only the peers with work are active")
		for i := range active {
			require.Equal(t, 1, each[i])
		}
	}
}

// A connection stays active until its unsignaled requests are acknowledged, because the
// peer does not ring for this acknowledgement.
func TestUnansweredConnStaysActive(t *testing.T) {
	const peers = 3
	bs, as := newStar(t, newMemoryDevice(t, memoryConfig{vectors: 1 + peers}), peers)
	a, b := as[0], bs[0]
	b.recv(1, 0, 64)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")})
	a.pollN(restPolls)
	writeAll(bs)
	each, sum := consumedInPoll(as)
	require.Equal(t, 1, each[0], "the connection is active")
	require.Equal(t, 2, sum, "the others are idle")
	b.wait(1)
	b.pollN(2) // The polls find no other work, so b sends the acknowledgement.
	a.pollN(restPolls)
	sent := &connOf(a).p.sent
	require.Equal(t, sent.seq, sent.executed)
	writeAll(bs)
	_, sum = consumedInPoll(as)
	require.Equal(t, 1, sum, "all are idle")
}

// An end rings its peer's doorbell only if the peer is parked, because a doorbell costs
// a system call.
func TestPollingEndIsNotRung(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	for id := range uint64(10) {
		b.recv(id, 0, 100)
		a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("x")})
		b.wait(1)
		a.wait(1, b)
	}
	for _, e := range []*end{a, b} {
		require.False(t, cmside.Readable(t, connOf(e).p.end.Doorbell))
	}
}

// The sender calls SendInline, drives its shard, and then calls Doorbell. If the receiver
// sleeps, Doorbell wakes it.
func TestInlineDoorbellWakes(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := newEnd(t, d, 0, verbs.ProgressManual)
	b := newSleeper(t, d, 1, verbs.ProgressManual)
	a.connect(b.end, nil)
	b.connect(a, nil)
	becomeReady(a, b.end)
	a.recv(9, 0, 100)
	b.recv(1, 0, 100)
	b.recv(2, 0, 100)
	require.True(t, a.qp.SendInline(0, 0, []byte("first")))
	require.True(t, a.qp.SendInline(0, 0, []byte("second")))
	b.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("drive")})
	require.Len(t, a.wait(1), 1)
	got := len(b.pollN(10))
	require.NoError(t, b.cq.Arm(false))
	got += len(b.pollN(10))
	a.qp.Doorbell()
	if got < 2 {
		require.True(t, cmside.Readable(t, b.ch.FD()))
		b.wait(2 - got)
	}
}
