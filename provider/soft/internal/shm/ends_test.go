//go:build linux

package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// The tests have two processes. The client sends requests, and the server chooses ends.
var (
	clientProcess, serverProcess = Process{UID: 1, PID: 10}, Process{UID: 1, PID: 20}
	clientShard, serverShard     = ShardID{Device: 100, Number: 3}, ShardID{Device: 200, Number: 4}
	serverKey                    = EndKey{clientProcess, clientShard, serverShard.Number}
	clientKey                    = EndKey{serverProcess, serverShard, clientShard.Number}
)

// newTables returns the tables of a client and a server. At the end of the test, both
// must be empty.
func newTables(t *testing.T) (client, server *Ends) {
	before := openDescriptors(t)
	maps := newTestLimit()
	client, server = NewEnds(testGeometry, maps, clientShard.Device, nil), NewEnds(testGeometry, maps, serverShard.Device, nil)
	t.Cleanup(func() {
		for _, ends := range []*Ends{client, server} {
			require.Empty(t, ends.byKey)
			require.Empty(t, ends.byID)
			require.Empty(t, ends.held)
			require.Empty(t, ends.shards.of)
		}
		maps.settle()
		require.Zero(t, maps.mapped)
		require.Equal(t, before, openDescriptors(t))
	})
	return client, server
}

// Use returns the end that Choose would return, or nil if it would make a segment.
func (t *Ends) Use(key EndKey) *End {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.use(key)
}

// connectEnds makes the memory and the two ends of the first connection.
func connectEnds(t *testing.T, client, server *Ends, serverKey, clientKey EndKey) (c, s *End) {
	s, err := server.Choose(serverKey)
	require.NoError(t, err)
	c = openPassed(t, client, clientKey, s)
	s.Confirm()
	return c, s
}

// openPassed opens the segment of an end of the other side.
func openPassed(t *testing.T, ends *Ends, key EndKey, made *End) *End {
	fds, err := made.Pass()
	require.NoError(t, err)
	e, err := ends.Open(key, made.ID, fds[0], fds[1])
	require.NoError(t, err)
	return e
}

// The second connection uses the ends of the first. The last connection closes them.
func TestEndsAreShared(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	require.Same(t, s, server.Use(serverKey))
	require.Same(t, c, client.Find(clientKey, s.ID, 1-s.Side))
	s.Release()
	c.Release()
	require.Same(t, s, server.Use(serverKey), "one connection is left")
	s.Release()
	s.Release()
	c.Release()
}

// A process can not use an end that belongs to other processes.
func TestEndsOfOthersAreNotFound(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	for name, change := range map[string]func(*EndKey){
		"process":        func(k *EndKey) { k.PID++ },
		"device":         func(k *EndKey) { k.Other.Device++ },
		"shard":          func(k *EndKey) { k.Other.Number++ },
		"own shard":      func(k *EndKey) { k.Own++ },
		"no process":     func(k *EndKey) { k.PID = 0 },
		"another device": func(k *EndKey) { *k = serverKey },
	} {
		key := clientKey
		change(&key)
		require.Nil(t, client.Find(key, s.ID, 0), name)
		if name != "another device" {
			key = serverKey
			change(&key)
			require.Nil(t, server.Use(key), name)
		}
	}
	require.Nil(t, client.Find(clientKey, s.ID+1, 0))
	require.Nil(t, client.Find(clientKey, s.ID, 1), "the other side's end")
	c.Release()
	s.Release()
}

// Connections to a process in another PID namespace share no memory.
func TestEndsWithoutProcess(t *testing.T) {
	client, server := newTables(t)
	key := serverKey
	key.PID = 0
	c, s := connectEnds(t, client, server, key, clientKey)
	require.Nil(t, server.Use(key))
	require.Same(t, c, client.Find(clientKey, s.ID, 0))
	c.Release()
	c.Release()
	s.Release()
}

// A new connection does not use an end whose other side has closed its doorbell.
func TestClosedEndsAreNotUsed(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	c.Release()
	require.Nil(t, server.Use(serverKey))
	again, other := connectEnds(t, client, server, serverKey, clientKey)
	require.Same(t, other, server.Use(serverKey))
	other.Release()
	again.HangUp()
	require.Nil(t, server.Use(serverKey))
	for _, e := range []*End{s, again, other} {
		e.Release()
	}
}

// Drop returns false while an end has users or is held.
func TestDrop(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	c.Adopt()
	require.False(t, client.Drop(c, false), "the end has a user")
	client.Hold(serverProcess, clientShard.Number)
	client.Hold(serverProcess, clientShard.Number)
	c.Release()
	require.False(t, client.Drop(c, false), "a reply may choose the end")
	client.Unhold(serverProcess, clientShard.Number)
	require.False(t, client.Drop(c, false), "another reply may choose the end")
	client.Unhold(serverProcess, clientShard.Number)
	client.Hold(serverProcess, clientShard.Number+1)
	require.True(t, client.Drop(c, false), "the request of another shard does not matter")
	require.Nil(t, server.Use(serverKey), "the other side has left")
	client.Unhold(serverProcess, clientShard.Number+1)
	c.Close()
	s.Release()
}

// If two processes connect to each other at the same time, each of them makes a segment.
// Later connections can use either segment.
func TestEndsOfBothDirections(t *testing.T) {
	client, server := newTables(t)
	s1, err := server.Choose(serverKey)
	require.NoError(t, err)
	c2, err := client.Choose(clientKey)
	require.NoError(t, err)
	c1, s2 := openPassed(t, client, clientKey, s1), openPassed(t, server, serverKey, c2)
	for _, e := range []*End{server.Use(serverKey), client.Use(clientKey)} {
		other, key := client, clientKey
		if e.ends == client {
			other, key = server, serverKey
		}
		found := other.Find(key, e.ID, 1-e.Side)
		require.NotNil(t, found)
		require.Equal(t, e.ID, found.ID)
		require.NotEqual(t, e.Side, found.Side)
		found.Release()
		e.Release()
	}
	for _, e := range []*End{c1, s1, c2, s2} {
		e.Release()
	}
}

// The client may read replies in any order. Each reply comes with descriptors until
// Confirm is called.
func TestRepliesInAnyOrder(t *testing.T) {
	client, server := newTables(t)
	s, err := server.Choose(serverKey)
	require.NoError(t, err)
	require.Same(t, s, server.Use(serverKey))
	var ends []*End
	for range 2 {
		fds, err := s.Pass()
		require.NoError(t, err)
		c, err := client.Open(clientKey, s.ID, fds[0], fds[1])
		require.NoError(t, err)
		ends = append(ends, c)
	}
	require.Same(t, ends[0], ends[1])
	s.Confirm()
	fds, err := s.Pass()
	require.NoError(t, err)
	require.Empty(t, fds)
	for _, e := range []*End{s, s, ends[0], ends[1]} {
		e.Release()
	}
}

// Two segments can not have the same number.
func TestOpenEqualNumbers(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	other := clientKey
	other.PID++
	_, err = client.Open(other, s.ID, pair[0], pair[1])
	require.ErrorIs(t, err, ErrSegment)
	c.Release()
	s.Release()
}

// A held end stays open without users. Unhold closes it.
func TestReleaseWhileHeld(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	client.Hold(serverProcess, clientShard.Number)
	c.Release()
	require.Same(t, c, client.Find(clientKey, s.ID, 0))
	c.Release()
	client.Unhold(serverProcess, clientShard.Number)
	s.Release()
}

// After Forget, Use does not return an end for new connections. Find still returns it,
// because the other side may have chosen the end before.
func TestForget(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	client.Forget(c)
	require.Nil(t, client.Use(clientKey))
	require.Same(t, c, client.Find(clientKey, s.ID, 0))
	c.Release()
	c.Release()
	s.Release()
}

// UsePair returns two different ends, even between a shard and itself.
func TestUsePairTwice(t *testing.T) {
	for _, other := range []uint32{1, 0} {
		client, _ := newTables(t)
		a, b, err := client.UsePair(0, other)
		require.NoError(t, err)
		require.NotSame(t, a, b)
		c, d, err := client.UsePair(other, 0)
		require.NoError(t, err)
		if other == 0 {
			c, d = d, c
		}
		require.ElementsMatch(t, []*End{a, b}, []*End{c, d})
		for _, e := range []*End{a, b, c, d} {
			e.Release()
		}
	}
}

// Open owns the descriptors, even if the segment is not valid.
func TestOpenInvalid(t *testing.T) {
	client, _ := newTables(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	_, err = client.Open(clientKey, 1, pair[0], pair[1])
	require.ErrorIs(t, err, ErrSegment)
}

// A peer that makes more segments for two shards than it can have a reason for, while the
// first ones are in use, does not get them mapped.
func TestFewSegmentsForTwoShards(t *testing.T) {
	client, server := newTables(t)
	c, s := connectEnds(t, client, server, serverKey, clientKey)
	ends := []*End{c, s}
	choose := func() *End {
		server.Forget(ends[len(ends)-1]) // The server acts as if it had none.
		e, err := server.Choose(serverKey)
		require.NoError(t, err)
		ends = append(ends, e)
		return e
	}
	for range maxSegments - 1 {
		e := choose()
		ends = append([]*End{openPassed(t, client, clientKey, e)}, ends...)
	}
	last := choose()
	fds, err := last.Pass()
	require.NoError(t, err)
	_, err = client.Open(clientKey, last.ID, fds[0], fds[1])
	require.ErrorIs(t, err, ErrSegment)

	s.HangUp()
	ends = append(ends, openPassed(t, client, clientKey, last))
	for _, e := range ends {
		e.Release()
	}
}

// A process that states many shards gets a segment for a limited number of them. Shards
// that have one, and other processes, are not limited.
func TestPeerShards(t *testing.T) {
	client, server := newTables(t)
	key := serverKey
	var ends []*End
	for range maxPeerShards {
		key.Other.Number++
		e, err := server.Choose(key)
		require.NoError(t, err)
		ends = append(ends, e)
	}
	again, err := server.Choose(key)
	require.NoError(t, err)
	require.Same(t, ends[len(ends)-1], again)
	again.Release()
	more := key
	more.Other.Device++
	_, err = server.Choose(more)
	require.ErrorIs(t, err, errPeerLimit)
	other, err := client.Choose(clientKey)
	require.NoError(t, err)
	_, err = server.Open(more, other.ID, -1, -1)
	require.ErrorIs(t, err, errPeerLimit, "neither does it make one")
	other.Release()
	require.EqualValues(t, 2, server.maps.counts.Load(counters.PeerShardsErr))

	more.PID++
	other, err = server.Choose(more)
	require.NoError(t, err)
	other.Release()
	ends[0].Release()
	more.PID--
	other, err = server.Choose(more)
	require.NoError(t, err)
	for _, e := range append(ends[1:], other) {
		e.Release()
	}
}
