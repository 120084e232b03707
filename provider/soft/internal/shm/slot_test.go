//go:build linux

package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDest(t *testing.T) {
	d := NewDest(0xff123456, 0)
	require.EqualValues(t, 0x123456, d.QPN(), "a queue pair number has 24 bits")
	require.Equal(t, d.QPN(), d.Next().QPN())
	seen := map[Dest]bool{}
	for range 256 {
		seen[d] = true
		d = d.Next()
	}
	require.Len(t, seen, 256)
	require.Equal(t, NewDest(0x123456, 0), d, "the attempts wrap")
	require.EqualValues(t, 7, NewDest(1, 7).Attempt())
}

// The operation numbers must not change, because the two sides may have different
// versions of the library.
func TestOperationNumbers(t *testing.T) {
	require.EqualValues(t, 0x80, Ready)
	require.EqualValues(t, 0x81, ReadyToo)
	require.EqualValues(t, 0x82, Refused)
	require.EqualValues(t, 0x83, Stopped)
}

// A consumer finds each slot, even after the 16-bit sequence number of a slot has wrapped
// around.
func TestSequenceOverflows(t *testing.T) {
	out, in := newRing(8)
	for range 1<<16 + 20 {
		require.False(t, in.Ready())
		require.True(t, out.PutSend(5, nil, 0))
		out.PublishFirst()
		_, to, _, ok := in.PeekSend()
		require.True(t, ok)
		require.EqualValues(t, 5, to)
		in.AdvanceSend()
		require.True(t, out.Free(in.Head))
	}
}
