//go:build linux

package rcpath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A wireBench has queue pairs of two shards, connected over UDP sockets of the loopback
// interface. One goroutine drives both shards.
type wireBench struct {
	b          *testing.B
	send, recv []*qptest.End
}

// newWireBench connects n pairs of queue pairs. All queue pairs of a shard share the CQ
// of the first one.
func newWireBench(b *testing.B, n int) *wireBench {
	w := &wireBench{b: b}
	local := netip.MustParseAddr("127.0.0.1")
	d := newPacketDeviceAt(b, 2, local, freeport.UDP(b))
	aim := func(attr *verbs.QPAttr) {
		attr.AH.DestGID, attr.Timeout = verbs.GIDFromAddr(local), 18
	}
	for range n {
		x, y := w.newEnd(d, 0, w.send), w.newEnd(d, 1, w.recv)
		x.Connect(y, aim)
		y.Connect(x, aim)
		w.send, w.recv = append(w.send, x), append(w.recv, y)
	}
	return w
}

func (w *wireBench) newEnd(d *qptest.Device, vector int, others []*qptest.End) *qptest.End {
	if len(others) == 0 {
		return qptest.NewEndOn(w.b, d, &verbs.CQAttr{Depth: 1 << 16, Vector: vector, Progress: verbs.ProgressManual})
	}
	first := others[0]
	q, err := first.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: first.CQ, RecvCQ: first.CQ,
		Caps: verbs.QPCaps{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 128}})
	require.NoError(w.b, err)
	w.b.Cleanup(func() { require.NoError(w.b, q.Close()) })
	return &qptest.End{T: w.b, PD: first.PD, CQ: first.CQ, MR: first.MR, WC: first.WC, QP: q.(*qp.QP)}
}

// cpuTime returns the processor time of the process in nanoseconds.
func cpuTime(b *testing.B) float64 {
	var now unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now))
	return float64(now.Nano())
}

// run measures the function step. A call of step sends the given number of messages.
func (w *wireBench) run(messages int, step func()) {
	for range 64 {
		step() // The first packets cause the shard to open connected sockets.
	}
	w.b.ReportAllocs()
	w.b.ResetTimer()
	began := cpuTime(w.b)
	for range w.b.N {
		step()
	}
	w.b.StopTimer()
	w.b.ReportMetric((cpuTime(w.b)-began)/float64(w.b.N*messages), "cpu-ns/message")
}

// poll polls the CQ of an end, and returns how many messages have arrived.
func (w *wireBench) poll(e *qptest.End) (arrived int) {
	n, err := e.CQ.Poll(e.WC)
	if err != nil {
		w.b.Fatal(err)
	}
	for i := range e.WC[:n] {
		wc := &e.WC[i]
		if wc.Status != verbs.StatusSuccess {
			w.b.Fatal(wc.Status)
		}
		if wc.Opcode == verbs.WCRecv {
			arrived++
		}
	}
	return arrived
}

// BenchmarkWireStream sends 16 messages in one direction, and waits for them.
func BenchmarkWireStream(b *testing.B) {
	for _, size := range []int{64, 4096, 65536} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const messages = 16
			w := newWireBench(b, 1)
			x, y := w.send[0], w.recv[0]
			recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(y.MR, 0, size)}}}
			sends := make([]verbs.SendWR, messages)
			for i := range sends {
				sends[i] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(x.MR, 0, size)}}
			}
			w.run(messages, func() {
				for range messages {
					_, _ = y.QP.PostRecv(recvs)
				}
				_, _ = x.QP.PostSend(sends)
				for arrived := 0; arrived < messages; {
					arrived += w.poll(y)
					w.poll(x)
				}
			})
		})
	}
}

// BenchmarkWireConnections sends a message of 64 bytes and its answer on each
// connection.
func BenchmarkWireConnections(b *testing.B) {
	for _, conns := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(conns), func(b *testing.B) {
			w := newWireBench(b, conns)
			send := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: make([]byte, 64)}}
			exchange := func(from, to []*qptest.End) {
				recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(to[0].MR, 0, 64)}}}
				for i, e := range from {
					_, _ = to[i].QP.PostRecv(recvs)
					_, _ = e.QP.PostSend(send)
				}
				for arrived := 0; arrived < len(to); {
					arrived += w.poll(to[0])
					w.poll(from[0])
				}
			}
			w.run(2*conns, func() {
				exchange(w.send, w.recv)
				exchange(w.recv, w.send)
			})
		})
	}
}
