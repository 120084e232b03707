//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestParkedEndIsWoken(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	b := qptest.NewSleeper(t, d, 1, verbs.ProgressManual)
	a.Connect(b.End, nil)
	b.Connect(a, nil)
	for round := range 3 {
		b.Recv(uint64(round), 0, 100)
		require.NoError(t, b.CQ.Arm(false))
		n, err := b.CQ.Poll(b.WC)
		require.NoError(t, err)
		require.Zero(t, n)
		require.False(t, cmside.Readable(t, b.Ch.FD()))
		a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("wake")})
		require.True(t, cmside.Readable(t, b.Ch.FD()))
		cookie, ok, err := b.Ch.Next()
		require.NoError(t, err)
		require.True(t, ok)
		require.EqualValues(t, 7, cookie)
		b.CQ.AckEvents(1)
		require.Len(t, b.Wait(1), 1)
		_, ok, err = b.Ch.Next()
		require.NoError(t, err)
		require.False(t, ok)
		require.False(t, cmside.Readable(t, b.Ch.FD()))
	}
}

// A sender with one signaled request sleeps until its acknowledgement arrives.
func TestAckWakesWaitingSender(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := qptest.NewSleeper(t, d, 0, verbs.ProgressManual)
	b := qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, nil)
	b.Connect(a.End, nil)
	b.Recv(1, 0, 100)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("x")})
	require.NoError(t, a.CQ.Arm(false))
	require.False(t, cmside.Readable(t, a.Ch.FD()))
	b.Wait(1)
	// A poll of b that finds no work sends the acknowledgement.
	_, err := b.CQ.Poll(b.WC)
	require.NoError(t, err)
	a.Sleep()
	_, ok, err := a.Ch.Next()
	require.NoError(t, err)
	require.True(t, ok)
	a.CQ.AckEvents(1)
	require.Equal(t, verbs.StatusSuccess, a.Wait(1)[0].Status)
}

// An RNR NAK wakes a sleeping sender, because the sender has to send again. This holds
// even if no request is signaled.
func TestRNRWakesAnUnsignaledSender(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := qptest.NewSleeper(t, d, 0, verbs.ProgressManual)
	b := qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, nil)
	b.Connect(a.End, nil)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")})
	require.NoError(t, a.CQ.Arm(false))
	_, err := b.CQ.Poll(b.WC) // The end b has no receive buffer, so it sends an RNR NAK.
	require.NoError(t, err)
	b.Recv(1, 0, 100)
	for range qptest.PollLimit {
		a.Sleep() // First the RNR NAK wakes a, and then the RNR timer.
		_, _, err = a.Ch.Next()
		require.NoError(t, err)
		n, err := b.CQ.Poll(b.WC)
		require.NoError(t, err)
		if n == 1 {
			require.Equal(t, verbs.StatusSuccess, b.WC[0].Status)
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
			a, b := qptest.NewSleeper(t, d, 0, progress), qptest.NewSleeper(t, d, 1, progress)
			a.Connect(b.End, nil)
			b.Connect(a.End, nil)
			a.Recv(0, 0, 64)
			b.Recv(0, 0, 64)
			const rounds = 2000
			done := make(chan struct{})
			go func() {
				defer close(done)
				pingPong(b, rounds)
			}()
			a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("serve")})
			pingPong(a, rounds)
			<-done
		})
	}
}

// pingPong answers messages, and sleeps while it waits for the next.
func pingPong(s *qptest.Sleeper, rounds int) {
	for got := 0; got < rounds; {
		n, err := s.CQ.Poll(s.WC)
		require.NoError(s.T, err)
		if n == 0 {
			require.NoError(s.T, s.CQ.Arm(false))
			if n, err = s.CQ.Poll(s.WC); n == 0 && err == nil {
				s.Sleep()
				for ok := true; ok; {
					_, ok, err = s.Ch.Next()
					require.NoError(s.T, err)
					if ok {
						s.CQ.AckEvents(1)
					}
				}
				continue
			}
		}
		for range n {
			s.Recv(0, 0, 64)
			s.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("ball")})
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
		_, err := bs[0].CQ.Poll(nil)
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
		a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("wake")})
		require.EqualValues(t, i, bs[i].Wait(1)[0].ID)
		require.Equal(t, verbs.StatusSuccess, a.Wait(1, bs[i])[0].Status, "a connection that sends polls for the acknowledgement")
	}
}

// newStar connects n pairs of ends. The first end of each pair has its own shard, and
// the second ends share one shard. Each second end has a receive buffer, whose id is its
// index.
func newStar(t *testing.T, d verbs.Device, n int) (as, bs []*qptest.End) {
	for i := range n {
		a, b := qptest.NewEnd(t, d, i+1, verbs.ProgressManual), qptest.NewEnd(t, d, 0, verbs.ProgressManual)
		a.Connect(b, nil)
		b.Connect(a, nil)
		qptest.BecomeReady(a, b)
		b.Recv(uint64(i), 0, 64)
		as, bs = append(as, a), append(bs, b)
	}
	return as, bs
}

// writeAll posts a WRITE without data at each end.
func writeAll(ends []*qptest.End) {
	for _, e := range ends {
		e.Post(verbs.SendWR{Opcode: verbs.OpWrite})
	}
}

// consumedInPoll polls once, and returns how many slots each of the ends of a shard has
// consumed.
func consumedInPoll(ends []*qptest.End) (each []int, sum int) {
	for _, e := range ends {
		each = append(each, -int(connOf(e).p.in.Head))
	}
	ends[0].PollN(1)
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
	bs[0].PollN(restPolls)
	for i, a := range as {
		a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("wake")})
		got := bs[i].PollN(maxPolled)
		require.Len(t, got, 1, "each idle peer is polled in turn")
		require.EqualValues(t, i, got[0].ID)
	}
	for active := range as {
		bs[0].PollN(restPolls)
		writeAll(as[:active])
		bs[0].PollN(2 * maxPolled)
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
	b.Recv(1, 0, 64)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")})
	a.PollN(restPolls)
	writeAll(bs)
	each, sum := consumedInPoll(as)
	require.Equal(t, 1, each[0], "the connection is active")
	require.Equal(t, 2, sum, "the others are idle")
	b.Wait(1)
	b.PollN(2) // The polls find no other work, so b sends the acknowledgement.
	a.PollN(restPolls)
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
		b.Recv(id, 0, 100)
		a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("x")})
		b.Wait(1)
		a.Wait(1, b)
	}
	for _, e := range []*qptest.End{a, b} {
		require.False(t, cmside.Readable(t, connOf(e).p.end.Doorbell))
	}
}

// The sender calls SendInline, drives its shard, and then calls Doorbell. If the receiver
// sleeps, Doorbell wakes it.
func TestInlineDoorbellWakes(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a := qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	b := qptest.NewSleeper(t, d, 1, verbs.ProgressManual)
	a.Connect(b.End, nil)
	b.Connect(a, nil)
	qptest.BecomeReady(a, b.End)
	a.Recv(9, 0, 100)
	b.Recv(1, 0, 100)
	b.Recv(2, 0, 100)
	require.True(t, a.QP.SendInline(0, 0, []byte("first")))
	require.True(t, a.QP.SendInline(0, 0, []byte("second")))
	b.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("drive")})
	require.Len(t, a.Wait(1), 1)
	got := len(b.PollN(10))
	require.NoError(t, b.CQ.Arm(false))
	got += len(b.PollN(10))
	a.QP.Doorbell()
	if got < 2 {
		require.True(t, cmside.Readable(t, b.Ch.FD()))
		b.Wait(2 - got)
	}
}
