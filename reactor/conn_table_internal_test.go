package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrIDParts(t *testing.T) {
	id := wrID(maxConns-1)<<indexShift | wrID(generationMask)<<generationShift | connBit | recvBit | 12345
	require.Equal(t, maxConns-1, id.index())
	require.True(t, id.sameConn(id&^connBit-1))
	require.False(t, id.sameConn(id-1<<generationShift), "another generation")
	require.False(t, id.sameConn(id-1<<indexShift), "another index")
	require.True(t, id.ofConn())
	require.True(t, id.recv())
	require.EqualValues(t, 12345, id.slot())
	require.False(t, (id &^ recvBit).recv())
	shared := wrID(1<<bufferBits - 1)
	require.False(t, shared.ofConn())
	require.EqualValues(t, shared, shared.buffer())
}

// TestConnTable checks that a request id of a removed connection does not find a new
// connection with the same index.
func TestConnTable(t *testing.T) {
	var table connTable
	a, b := &Conn{}, &Conn{}
	require.True(t, table.add(a))
	keyA := a.key
	require.Same(t, a, table.get(keyA|connBit|7))
	table.remove(keyA)
	require.Nil(t, table.get(keyA))
	require.True(t, table.add(b))
	keyB := b.key
	require.Equal(t, keyA.index(), keyB.index())
	require.Nil(t, table.get(keyA))
	require.Same(t, b, table.get(keyB))
	table.remove(keyA)
	require.Same(t, b, table.get(keyB), "a second remove with the old key does nothing")
	require.Nil(t, table.get(wrID(5)<<indexShift), "no connection has had the index")
	require.Equal(t, 1, table.count())
}

func TestConnTableIterationAllowsRemoval(t *testing.T) {
	var table connTable
	for range 5 {
		table.add(&Conn{})
	}
	count := 0
	for c := range table.all() {
		count++
		table.remove(c.key)
	}
	require.Equal(t, 5, count)
	require.Zero(t, table.count())
}
