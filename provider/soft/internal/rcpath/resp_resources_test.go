//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A peer with too many outstanding READs and atomics gets the responses of the allowed
// ones, and then a NAK (IBTA vol. 1, 9.7.5.2.3).
func TestWireTooManyReads(t *testing.T) {
	p := newScript(t) // The script allows 2 outstanding READs and atomics.
	p.send(p.read(0, 0, 10), p.read(1, 0, 10), p.read(2, 0, 10), p.read(3, 0, 10))
	p.wantResponse("the response of the first READ", wire.ReadResponseOnly, 0)
	p.wantResponse("the response of the second READ", wire.ReadResponseOnly, 1)
	p.wantSyndrome("the third READ is one too many", wire.NAK(wire.NAKInvalidRequest), 2)
	p.wantQuiet("the queue pair is in error")
	require.Equal(t, verbs.StateError, p.e.QP.State())
	p.wantAsync(verbs.AsyncQPRequestError)
}

// A peer may always have the negotiated number of READs outstanding, and may send
// duplicates.
func TestWireAllowedReads(t *testing.T) {
	p := newScript(t)
	for seq := uint64(0); seq < 20; seq += 2 {
		p.send(p.read(seq, 0, 10), p.read(seq+1, 0, 10))
		p.wantResponse("", wire.ReadResponseOnly, seq)
		p.wantResponse("", wire.ReadResponseOnly, seq+1)
	}
	// Duplicates of the last two requests arrive late.
	p.deliver(p.read(18, 0, 10), p.read(19, 0, 10))
	p.send(p.read(20, 0, 10), p.read(21, 0, 10))
	p.wantResponse("", wire.ReadResponseOnly, 20)
	p.wantResponse("", wire.ReadResponseOnly, 21)
	p.wantQuiet("the new READs have replaced the duplicates")
	require.Equal(t, verbs.StateRTS, p.e.QP.State())
}

// A READ is outstanding until its response was sent completely.
func TestWireUnfinishedReadIsOutstanding(t *testing.T) {
	p := newScript(t)
	p.room = 3
	p.send(p.read(0, 0, 4*scriptMTU), p.read(4, 0, 10))
	p.room = -1
	p.deliver(p.read(5, 0, 10))
	p.e.QP.Shard.Demux.SendDue()
	require.Equal(t, verbs.StateError, p.e.QP.State())
}
