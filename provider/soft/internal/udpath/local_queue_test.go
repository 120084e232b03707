//go:build linux

package udpath

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPacketQueue(t *testing.T) {
	var q packetQueue
	require.True(t, q.empty())
	packet := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i%97) }
	pushed, popped, held := 0, 0, 0
	for _, step := range []int{3, -2, 40, -40, 200, -100, 100, -201} {
		for ; step > 0; step-- {
			held += q.push(packet(pushed))
			pushed++
		}
		for ; step < 0; step++ {
			require.Equal(t, packet(popped), q.first())
			held -= q.pop()
			popped++
		}
		require.Equal(t, held, q.size())
		require.Equal(t, pushed-popped, q.count)
	}
	require.True(t, q.empty())
	require.Nil(t, q.buf, "an empty queue holds no memory")
}

// A packet queue that never empties reuses its memory.
func TestPacketQueueReusesMemory(t *testing.T) {
	var q packetQueue
	packet := make([]byte, 100)
	for range 10 {
		q.push(packet)
	}
	for range 10_000 {
		q.push(packet)
		q.pop()
	}
	require.Less(t, cap(q.buf), 100*queuedSize(packet))
	require.Equal(t, 10*queuedSize(packet), q.clear())
	require.True(t, q.empty())
}
