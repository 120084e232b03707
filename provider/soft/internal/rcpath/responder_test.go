//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newRCResponder returns a responder that allows two outstanding READs and atomics.
func newRCResponder() *responder {
	r := new(responder)
	r.init(&verbs.QPAttr{RQPSN: uint32(theirBase), MaxDestRdAtomic: 2})
	return r
}

func TestRCResponderSequences(t *testing.T) {
	r := newRCResponder()
	_, ok := r.accepts(theirBase.Add(-1))
	require.False(t, ok, "before the connection")
	r.executedData(false)
	r.executedData(true)
	r.executedRead(qp.MemoryRange{Left: 100}, 3)
	r.executedAtomic(7)
	require.EqualValues(t, 6, r.expected)
	require.EqualValues(t, 2, r.dataEnd)
	require.EqualValues(t, 3, r.msn)
	seq, ok := r.accepts(r.psn(6))
	require.True(t, ok)
	require.EqualValues(t, 6, seq)
	r.fail(qp.OutcomeAccessError)
	_, ok = r.accepts(r.psn(6))
	require.False(t, ok, "no request is executed after one that has failed")
	require.Equal(t, wire.NAK(wire.NAKRemoteAccess), r.nak)
}

// A responder sends one NAK for each missing packet.
func TestRCResponderNAKStates(t *testing.T) {
	r := newRCResponder()
	require.Equal(t, nakNone, r.nakState)
	r.scheduleNAK(wire.NAK(wire.NAKSequence))
	require.Equal(t, nakDue, r.nakState)
	r.nakState = nakSent
	r.onExpected()
	require.Equal(t, nakNone, r.nakState)
}

// onDuplicate remembers the first duplicate packet, and returns true when the same packet
// arrives again. When a new request arrives, the responder forgets the first duplicate.
func TestRCResponderDuplicates(t *testing.T) {
	r := newRCResponder()
	require.False(t, r.onDuplicate(0))
	require.False(t, r.onDuplicate(1), "another packet")
	require.True(t, r.onDuplicate(0))
	r.onExpected()
	require.False(t, r.onDuplicate(0))
}

func TestRCResponderRepeats(t *testing.T) {
	r := newRCResponder()
	r.executedRead(qp.MemoryRange{Addr: 1000, Key: 5, Left: 600}, 3)
	r.executedAtomic(7)
	for res := r.resources.nextPending(); res != nil; res = r.resources.nextPending() {
		r.responseSent(res)
	}
	require.False(t, r.repeatAtomic(0), "it was a READ")
	require.False(t, r.repeatRead(qp.MemoryRange{Addr: 1000, Key: 5, Left: 8}, 3, 1, 256), "it was an atomic")
	require.False(t, r.repeatRead(qp.MemoryRange{Addr: 1256, Key: 5, Left: 345}, 1, 2, 256), "more than the first request")
	require.False(t, r.repeatRead(qp.MemoryRange{Addr: 1256, Key: 6, Left: 300}, 1, 2, 256), "another key")
	require.False(t, r.repeatRead(qp.MemoryRange{Addr: 1255, Key: 5, Left: 300}, 1, 2, 256), "another address")
	require.Nil(t, r.resources.nextPending())
	require.True(t, r.repeatRead(qp.MemoryRange{Addr: 1256, Key: 5, Left: 344}, 1, 2, 256))
	res := r.resources.nextPending()
	require.Equal(t, []uint64{1, 1, 2}, []uint64{res.start, res.next, res.end})
	require.Equal(t, qp.MemoryRange{Addr: 1256, Key: 5, Left: 344}, res.unsent)
	r.responseSent(res)
	r.responseSent(res)
	require.True(t, r.repeatAtomic(3))
	require.EqualValues(t, 7, r.resources.nextPending().result)
}

// A response acknowledges the SENDs and WRITEs before its request, but no later ones.
func TestRCResponderResponseAcknowledges(t *testing.T) {
	r := newRCResponder()
	r.executedData(true)
	r.executedRead(qp.MemoryRange{Left: 1}, 1)
	require.True(t, r.responseSent(r.resources.nextPending()))
	r.executedRead(qp.MemoryRange{Left: 1}, 1)
	r.executedData(true)
	require.False(t, r.responseSent(r.resources.nextPending()))
	require.False(t, r.resources.full(), "all responses were sent")
}
