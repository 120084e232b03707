package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

type namedDevice struct{ verbs.Device }

func TestFullLoops(t *testing.T) {
	var f fullLoops
	now := time.Unix(1, 0)
	loop, otherLoop := &Loop{}, &Loop{}
	one, other := &namedDevice{}, &namedDevice{}
	require.False(t, f.full(loopOnDevice{loop, one}, 5, now))
	f.record(loopOnDevice{loop, one}, 5, now)
	require.True(t, f.full(loopOnDevice{loop, one}, 5, now))
	require.True(t, f.full(loopOnDevice{loop, one}, 6, now))
	require.False(t, f.full(loopOnDevice{otherLoop, one}, 5, now), "the record is of another loop")
	require.False(t, f.full(loopOnDevice{loop, other}, 5, now), "the record is of another device")
	require.False(t, f.full(loopOnDevice{loop, one}, 4, now), "a connection has ended since the record")

	now = now.Add(fullRetry)
	require.False(t, f.full(loopOnDevice{loop, one}, 5, now), "one connection may try again")
	require.True(t, f.full(loopOnDevice{loop, one}, 5, now), "further connections may not try before fullRetry has passed again")
	f.clear(loopOnDevice{loop, one})
	require.False(t, f.full(loopOnDevice{loop, one}, 5, now), "the record was removed")
}

// TestAsNoResources checks which errors match ErrNoResources: missing resources of this
// side do, errors of the peer do not.
func TestAsNoResources(t *testing.T) {
	full := &verbs.ParamError{Field: "queue pairs"}
	require.ErrorIs(t, asNoResources(full), verbs.ErrNoResources)
	require.ErrorIs(t, asNoResources(full), full)
	require.NotErrorIs(t, asNoResources(operr.Wrap("create QP", verbs.ErrPeerGone)), verbs.ErrNoResources)
}
