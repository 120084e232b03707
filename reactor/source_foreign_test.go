package reactor_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func TestForeignDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	loop := newLoop(t, &hooks{}, &reactor.Config{Idle: reactor.IdleEvent, SafetyTimeout: testTimeout})

	var got []byte
	buf := make([]byte, 2)
	reg, err := loop.Register(int(r.Fd()), poller.Readable, func(ready poller.Readiness) {
		require.NotZero(t, ready&poller.Readable)
		n, err := r.Read(buf)
		require.NoError(t, err)
		got = append(got, buf[:n]...)
	})
	require.NoError(t, err)
	_, err = w.WriteString("level")
	require.NoError(t, err)
	// The function reads two bytes. It is called again while the descriptor is readable.
	for len(got) < 5 {
		_, err := loop.RunOnce(-1)
		require.NoError(t, err)
	}
	require.Equal(t, "level", string(got))
	require.NoError(t, reg.Modify(0))
	require.NoError(t, reg.Close())
	require.NoError(t, reg.Close())
	require.Error(t, reg.Modify(poller.Readable))
	_, err = w.WriteString("!")
	require.NoError(t, err)
	n, err := loop.RunOnce(0)
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestForeignClosedInCallback checks that a callback can close another registration
// whose descriptor is also readable. The other callback does not run.
func TestForeignClosedInCallback(t *testing.T) {
	loop := newLoop(t, &hooks{}, nil)
	calls := 0
	var regs [2]*reactor.Registration
	for i := range regs {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		defer w.Close()
		_, err = w.WriteString("x")
		require.NoError(t, err)
		regs[i], err = loop.Register(int(r.Fd()), poller.Readable, func(poller.Readiness) {
			calls++
			require.NoError(t, regs[1-i].Close())
		})
		require.NoError(t, err)
	}
	drive(t, func() bool { return calls > 0 }, loop)
	require.Equal(t, 1, calls)
}
