package goroutine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/goroutine"
)

func TestID(t *testing.T) {
	own := goroutine.ID()
	require.NotZero(t, own)
	require.Equal(t, own, deep(1000), "the stack has moved")
	other := make(chan uintptr)
	go func() { other <- goroutine.ID() }()
	require.NotEqual(t, own, <-other)
	if goroutine.Fast {
		require.Zero(t, testing.AllocsPerRun(100, func() { goroutine.ID() }))
	}
}

// deep returns the ID after n calls within calls.
func deep(n int) uintptr {
	var frame [256]byte
	if n == 0 {
		return goroutine.ID()
	}
	frame[n%len(frame)] = 1
	return deep(n-1) + uintptr(frame[(n+1)%len(frame)])
}
