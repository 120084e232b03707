package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// ringSides returns both sides of a ring in ordinary memory.
func ringSides(message int) (sender, receiver *ring) {
	f := &sharedFile{memory: make([]byte, ringSize(message))}
	return newRing(f, 0, message), newRing(f, 0, message)
}

// TestRing sends more messages than fit into a ring. Each message ends with a short
// fragment.
func TestRing(t *testing.T) {
	const size, messages = 3*ringFragment + 100, 1000
	sender, receiver := ringSides(size)
	go func() {
		message := make([]byte, size)
		for n := range messages {
			binary.LittleEndian.PutUint64(message[size-8:], uint64(n))
			sender.put(message)
		}
	}()
	message := make([]byte, size)
	for n := range messages {
		receiver.take(message)
		require.EqualValues(t, n, binary.LittleEndian.Uint64(message[size-8:]))
	}
	require.False(t, receiver.ready())
}

func TestRingShape(t *testing.T) {
	for message, want := range map[int]int{8: ringBytes / cellAlign, 64: ringBytes / cellAlign, 1 << 20: ringBytes / (ringFragment + cellAlign)} {
		cells, fragment := ringShape(message)
		require.Equal(t, want, cells, "%d bytes", message)
		require.Equal(t, min(message, ringFragment), fragment)
		require.GreaterOrEqual(t, ringSize(message), cells*cellSize(fragment))
	}
}
