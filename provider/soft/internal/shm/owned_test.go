//go:build linux

package shm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

// putArea sends n bytes of value b through the payload area.
func putArea(t *testing.T, p *Producer, n uint32, b byte) {
	t.Helper()
	dst, inArea, ok := p.Reserve(n)
	require.True(t, ok && inArea && len(dst) == int(n))
	for i := range dst {
		dst[i] = b
	}
	p.Put(&Slot{Fragment: fragment.Fragment{Op: fragment.Send, Flags: FlagArea, Length: n}})
	p.PublishFirst()
}

// OwnNext prepares as much memory as was sent before.
func TestOwnAsMuchAsWasSent(t *testing.T) {
	out, _ := newRing(8)
	require.False(t, out.OwnDue())
	putArea(t, &out, 2*ownBytes+100, 1)
	for _, has := range []uint32{ownBytes, 2 * ownBytes, 2*ownBytes + 128} {
		require.True(t, out.OwnDue())
		require.True(t, out.OwnNext())
		require.Equal(t, has, out.owned.has)
	}
	require.True(t, out.OwnNext())
	require.False(t, out.OwnDue())

	putArea(t, &out, ownBytes, 1)
	require.EqualValues(t, ownBytes+128, out.owned.has)
	require.True(t, out.OwnNext(), "it has enough for one more such message")
	require.False(t, out.OwnDue())
}

// OwnNext changes no payload that the consumer has not consumed.
func TestOwnLeavesPayloads(t *testing.T) {
	out, in := newRing(8)
	sizes := []uint32{200, 16 << 10, 5000, 1 << 10, 8 << 10, 64}
	var queued []byte // first byte of each payload in the ring
	for i := range 1000 {
		n := sizes[i%len(sizes)]
		if dst, _, ok := out.Reserve(n); ok && len(dst) == int(n) && n > SlotPayload {
			putArea(t, &out, n, byte(i)|1)
			queued = append(queued, byte(i)|1)
		} else if ok && n > SlotPayload {
			// A shorter payload fills the memory that Reserve has returned. Usually this
			// is the rest of the area, and the next payload begins at the area's start.
			putArea(t, &out, uint32(len(dst)), byte(i)|1)
			queued = append(queued, byte(i)|1)
		}
		for range 20 {
			if !out.OwnNext() {
				require.True(t, out.Free(in.Head))
			}
		}
		if len(queued) < 4 {
			continue
		}
		var s Slot
		filled, ok := in.Peek(&s)
		require.True(t, filled && ok)
		for _, b := range s.Payload {
			require.Equal(t, queued[0], b)
		}
		in.Advance(&s)
		queued = queued[1:]
	}
}

// OwnNext returns false if the ring is full.
func TestOwnNeedsFreeMemory(t *testing.T) {
	out, in := newRing(8)
	for range 4 {
		putArea(t, &out, maxFragment, 1)
	}
	require.False(t, out.OwnNext())
	var s Slot
	_, ok := in.Peek(&s)
	require.True(t, ok)
	in.Advance(&s)
	require.True(t, out.Free(in.Head))
	require.True(t, out.OwnNext())
	require.EqualValues(t, ownBytes, out.owned.has)
}

// Uncached is true for a long payload if the caches do not own its memory.
func TestUncached(t *testing.T) {
	out, _ := newRing(8)
	require.False(t, out.Uncached(minUncached-1))
	require.True(t, out.Uncached(minUncached))
	putArea(t, &out, ownBytes, 1)
	require.True(t, out.Uncached(ownBytes))
	require.True(t, out.OwnNext())
	require.False(t, out.Uncached(ownBytes))
	require.True(t, out.Uncached(ownBytes+1))
}
