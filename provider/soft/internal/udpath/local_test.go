//go:build linux

package udpath

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// untilEpoll is the number of polls after which a shard with a UD queue pair on the local
	// path has surely polled epoll. Arbitrary.
	untilEpoll = 128
	// idlePolls is the number of polls without datagrams after which no more arrive.
	// Arbitrary.
	idlePolls = 4096
)

// newDatagramEnd makes an end on the local path, with a UD queue pair in RTS.
func newDatagramEnd(t testing.TB, d *datagramDevice, progress verbs.Progress) *qptest.End {
	e := qptest.NewEnd(t, d, 0, progress)
	e.BecomeUD(512)
	return e
}

// numberedDatagram returns a request for a datagram. The first 4 bytes are the number n.
// The parameter extra is the number of further bytes.
func numberedDatagram(e *qptest.End, to verbs.AH, qpn uint32, n, extra int) verbs.SendWR {
	binary.BigEndian.PutUint32(e.MR.Bytes()[n*qp.DatagramMTU%qptest.EndSize:], uint32(n))
	return verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: to, RemoteQPN: qpn, RemoteQKey: qptest.DatagramQKey,
		SGEs: []verbs.SGE{verbs.SGEOf(e.MR, n*qp.DatagramMTU%qptest.EndSize, 4+extra)}}
}

// sendNumbered sends n datagrams with consecutive numbers, and waits for each
// completion. The parameter first is the first number.
func sendNumbered(e *qptest.End, to verbs.AH, qpn uint32, first, n, extra int) {
	e.T.Helper()
	for i := range n {
		e.Post(numberedDatagram(e, to, qpn, first+i, extra))
		require.Equal(e.T, verbs.StatusSuccess, e.Wait(1)[0].Status)
	}
}

// nonReadingQP simulates the UD queue pair num, which reads no datagrams. The returned
// function accepts a connection and returns the descriptor.
func nonReadingQP(t testing.TB, num uint32) (accept func() int) {
	fd, err := unixsock.Bind(socketName(num))
	require.NoError(t, err)
	require.NoError(t, unix.Listen(fd, 1))
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return func() int {
		client, err := unixsock.Accept(fd)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(client) })
		return client
	}
}

// A burst that exceeds the socket's buffer arrives completely and in order.
func TestDatagramBurst(t *testing.T) {
	for name, progress := range map[string]verbs.Progress{"manual": verbs.ProgressManual, "automatic": verbs.ProgressAuto} {
		t.Run(name, func(t *testing.T) {
			d := newLocalDevice(t, -1)
			a, b := newDatagramEnd(t, d, progress), newDatagramEnd(t, d, progress)
			to := handleFor(a, "127.0.0.1")
			const n = 60
			var burst []verbs.SendWR
			for i := range n {
				b.Recv(uint64(i), i*8192, 8192)
				burst = append(burst, numberedDatagram(a, to, b.QP.Num(), i, qp.DatagramMTU-4))
			}
			_, err := a.QP.PostSend(burst)
			require.NoError(t, err)
			a.Wait(n)
			for i, wc := range b.Wait(n, a) {
				require.Equal(t, verbs.StatusSuccess, wc.Status)
				require.EqualValues(t, i, wc.ID)
				require.Equal(t, a.QP.Num(), wc.SrcQPN)
				require.EqualValues(t, i, binary.BigEndian.Uint32(b.MR.Bytes()[i*8192+40:]))
			}
			require.Empty(t, d.Counted())
		})
	}
}

// The queue to a destination that does not read is limited. Further datagrams are
// dropped and counted. Other destinations get their datagrams.
func TestDatagramQueueBounded(t *testing.T) {
	d := newLocalDevice(t, -1)
	a, b := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	to, nonReading := handleFor(a, "127.0.0.1"), b.QP.Num()^0x800000
	accept := nonReadingQP(t, nonReading)
	const n = 1000
	sendNumbered(a, to, nonReading, 0, n, qp.DatagramMTU-4)
	dest := d.local(a).dests[nonReading]
	require.LessOrEqual(t, dest.queue.size(), maxDatagramQueue)
	require.Equal(t, dest.queue.size(), d.local(a).all.queued)

	b.Recv(1, 0, 100)
	sendNumbered(a, to, b.QP.Num(), 7, 1, 0)
	b.Wait(1)

	unsent := d.Counted()["datagram_unsent"]
	require.Positive(t, unsent)
	got := readNumbered(t, a, accept())
	require.EqualValues(t, n-unsent, len(got), "each datagram arrives or is counted")
	for i, num := range got {
		require.EqualValues(t, i, num, "the first datagrams are kept")
	}
	require.True(t, dest.queue.empty())
	require.Zero(t, d.local(a).all.queued)
	sendNumbered(a, to, nonReading, 8, 1, 0)
	require.Equal(t, unsent, d.Counted()["datagram_unsent"], "the queue has room again")
}

// readNumbered reads an end's datagrams from a socket until no more arrive. It returns
// their numbers.
func readNumbered(t *testing.T, a *qptest.End, fd int) (numbers []uint32) {
	packet := make([]byte, 8192)
	for idle := 0; idle < idlePolls; idle++ {
		if n, err := unix.Read(fd, packet); err == nil {
			numbers = append(numbers, binary.BigEndian.Uint32(packet[datagramHeader:n]))
			idle = 0
		}
		_, err := a.CQ.Poll(nil)
		require.NoError(t, err)
	}
	return numbers
}

// The queues of a shard together hold at most maxShardQueue bytes.
func TestDatagramQueuesBounded(t *testing.T) {
	d := newLocalDevice(t, -1)
	a := newDatagramEnd(t, d, verbs.ProgressManual)
	to := handleFor(a, "127.0.0.1")
	const dests, each = 20, 400
	for i := range uint32(dests) {
		nonReadingQP(t, a.QP.Num()^0x800000^i<<8)
		sendNumbered(a, to, a.QP.Num()^0x800000^i<<8, 0, each, qp.DatagramMTU-4)
	}
	require.LessOrEqual(t, d.local(a).all.queued, maxShardQueue)
	require.Greater(t, d.local(a).all.queued, maxShardQueue-maxDatagramQueue)
	waiting := 0
	for _, dest := range d.local(a).dests {
		waiting += dest.queue.count
	}
	before := d.Counted()["datagram_unsent"]
	require.NoError(t, a.QP.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	require.Zero(t, d.local(a).all.queued)
	require.EqualValues(t, waiting, d.Counted()["datagram_unsent"]-before, "a reset queue pair counts what it drops")
}

// Undeliverable datagrams are counted:
//
//   - datagram_unsent: the destination does not exist.
//   - out_of_buffer: the receiver has no buffer.
//   - rcvd_datagram_err: the buffer is too small or the Q_Key is wrong.
func TestDatagramsWithoutReceiver(t *testing.T) {
	d := newLocalDevice(t, -1)
	a, b := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	to := handleFor(a, "127.0.0.1")
	sendNumbered(a, to, b.QP.Num()^0x800000, 0, 3, 0)
	require.Equal(t, map[string]uint64{"datagram_unsent": 3}, d.Counted(), "no such queue pair")
	sendNumbered(a, to, b.QP.Num(), 0, 2, 0)
	b.PollN(untilEpoll)
	require.Equal(t, map[string]uint64{"datagram_unsent": 3, "out_of_buffer": 2}, d.Counted())
	b.Recv(1, 0, 41)
	sendNumbered(a, to, b.QP.Num(), 0, 2, 0)
	b.PollN(untilEpoll)
	require.Equal(t, map[string]uint64{"datagram_unsent": 3, "out_of_buffer": 2, "rcvd_datagram_err": 2}, d.Counted(), "the buffer is too small")
	wr := numberedDatagram(a, to, b.QP.Num(), 0, 0)
	wr.RemoteQKey++
	a.Post(wr)
	b.PollN(untilEpoll)
	require.EqualValues(t, 3, d.Counted()["rcvd_datagram_err"], "a wrong Q_Key")
	sendNumbered(a, to, b.QP.Num(), 0, 5, 0)
	require.NoError(t, b.QP.Close())
	require.EqualValues(t, 8, d.Counted()["rcvd_datagram_err"], "datagrams that a closed queue pair had not read")
}

// When a destination is closed and another one binds the same socket name, datagrams
// reach the new destination.
func TestDatagramDestComesBack(t *testing.T) {
	d := newLocalDevice(t, -1)
	a := newDatagramEnd(t, d, verbs.ProgressManual)
	to, num := handleFor(a, "127.0.0.1"), a.QP.Num()^0x800000
	for range 2 {
		fd, err := unixsock.Bind(socketName(num))
		require.NoError(t, err)
		require.NoError(t, unix.Listen(fd, 1))
		sendNumbered(a, to, num, 5, 1, 0)
		client, err := unixsock.Accept(fd)
		require.NoError(t, err)
		require.Equal(t, []uint32{5}, readNumbered(t, a, client))
		unixsock.CloseAll([]int{client, fd})
	}
	require.Empty(t, d.Counted())
}

// When the receiver's backlog is full, the sender keeps its datagrams and connects
// later. The datagrams stay in order.
func TestDatagramConnectAgain(t *testing.T) {
	d := newLocalDevice(t, -1)
	a := newDatagramEnd(t, d, verbs.ProgressManual)
	advance := a.StopClock()
	to, num := handleFor(a, "127.0.0.1"), a.QP.Num()^0x800000
	accept := nonReadingQP(t, num)
	for range 2 { // Two connections fill the backlog of a socket whose backlog is 1.
		fd, err := unixsock.New()
		require.NoError(t, err)
		require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: socketName(num)}))
		require.NoError(t, unix.Close(fd))
	}
	sendNumbered(a, to, num, 0, 3, 0)
	require.Equal(t, 3, d.local(a).dests[num].queue.count)
	accept()
	advance(connectRetryMost)
	a.PollN(untilEpoll)
	accept()
	require.Equal(t, []uint32{0, 1, 2}, readNumbered(t, a, accept()))

	for range 2 {
		fd, err := unixsock.New()
		require.NoError(t, err)
		require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: socketName(num)}))
		require.NoError(t, unix.Close(fd))
	}
	d.local(a).clear()
	sendNumbered(a, to, num, 0, 3, 0)
	for range connectTries + 1 {
		advance(connectRetryMost)
		a.PollN(untilEpoll)
	}
	require.Equal(t, map[string]uint64{"datagram_unsent": 3}, d.Counted(), "after the last attempt the datagrams are dropped")
	require.Empty(t, d.local(a).dests)
}

// A queue pair has a limited number of connections in each direction. All datagrams of a
// connection are delivered before it is closed because of a limit.
func TestDatagramConnectionsBounded(t *testing.T) {
	d := newLocalDevice(t, -1)
	a, b := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	to := handleFor(a, "127.0.0.1")
	local := d.local(a)
	var accepts []func() int
	for i := range uint32(maxDatagramDests + 10) {
		num := a.QP.Num() ^ 0x800000 ^ i<<8
		accepts = append(accepts, nonReadingQP(t, num))
		sendNumbered(a, to, num, int(i), 1, 0)
		require.LessOrEqual(t, len(local.dests), maxDatagramDests)
	}
	for i, accept := range accepts {
		packet := make([]byte, 100)
		n, err := unix.Read(accept(), packet)
		require.NoError(t, err)
		require.EqualValues(t, i, binary.BigEndian.Uint32(packet[datagramHeader:n]))
	}

	for i := range maxDatagramSources + 10 {
		b.Recv(0, 0, 100)
		fd, err := unixsock.New()
		require.NoError(t, err)
		require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: socketName(b.QP.Num())}))
		require.NoError(t, unix.Send(fd, bareDatagram(uint32(i+2)), 0))
		require.EqualValues(t, i+2, b.Wait(1)[0].SrcQPN)
		require.LessOrEqual(t, len(d.local(b).sources), maxDatagramSources)
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
}

// bareDatagram returns the packet of a datagram without payload from the queue pair src.
func bareDatagram(src uint32) []byte {
	b := make([]byte, datagramHeader)
	binary.BigEndian.PutUint32(b, qptest.DatagramQKey)
	binary.BigEndian.PutUint32(b[4:], src)
	return b
}

// An invalid packet closes its connection. Other connections stay open.
func TestDatagramGarbage(t *testing.T) {
	d := newLocalDevice(t, -1)
	b := newDatagramEnd(t, d, verbs.ProgressManual)
	sources := d.local(b).sources
	for _, packet := range [][]byte{{}, {1}, bytes.Repeat([]byte{0xff}, datagramHeader-1), make([]byte, datagramHeader+qp.DatagramMTU+1)} {
		fd, err := unixsock.New()
		require.NoError(t, err)
		require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: socketName(b.QP.Num())}))
		b.PollN(untilEpoll)
		require.Len(t, sources, 1)
		_, err = unix.SendmsgN(fd, packet, unix.UnixRights(fd), nil, 0)
		require.NoError(t, err)
		b.PollN(untilEpoll)
		require.Empty(t, sources)
		require.NoError(t, unix.Close(fd))
	}
}

// Sending a datagram over an existing connection does not allocate.
func TestDatagramsDoNotAllocate(t *testing.T) {
	d := newLocalDevice(t, -1)
	a, b := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	wrs := []verbs.SendWR{numberedDatagram(a, handleFor(a, "127.0.0.1"), b.QP.Num(), 0, 60)}
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(b.MR, 0, 200)}}}
	got := testing.AllocsPerRun(200, func() {
		_, _ = b.QP.PostRecv(recvs)
		_, _ = a.QP.PostSend(wrs)
		// The CQs of a and b share a shard, so polling one drives both ends.
		for n, limit := 0, 0; n < 2 && limit < 1000; limit++ {
			k, _ := a.CQ.Poll(a.WC)
			n += k
			k, _ = b.CQ.Poll(b.WC)
			n += k
		}
	})
	require.Zero(t, got)
	require.Empty(t, d.Counted())
}
