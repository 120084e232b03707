package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

func TestConnQueue(t *testing.T) {
	var q reactor.ConnQueue
	conns := make([]*reactor.Conn, 100)
	for i := range conns {
		conns[i] = new(reactor.Conn)
	}
	in, out := 0, 0
	for _, step := range []struct{ push, pop int }{{1, 1}, {10, 3}, {1, 7}, {50, 49}, {38, 40}} {
		for range step.push {
			reactor.Push(&q, conns[in])
			in++
		}
		for range step.pop {
			require.Same(t, conns[out], reactor.Pop(&q))
			out++
		}
		require.Equal(t, in-out, reactor.Len(&q))
	}
	require.Equal(t, len(conns), out)
	require.LessOrEqual(t, reactor.Capacity(&q), 2*len(conns), "the queue reuses its memory")
}
