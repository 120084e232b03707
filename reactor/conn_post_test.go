package reactor_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/goroutine"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestConnPost checks that a function of Conn.Post learns whether its connection is open:
// before Close, while the connection drains, after OnClose, and when the loop ends.
func TestConnPost(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	c, results := p.dialed, []error(nil)
	post := func() { require.NoError(t, c.Post(func(err error) { results = append(results, err) })) }
	post()
	p.drive(t, func() bool { return len(results) == 1 })
	require.NoError(t, c.Send(nil, nil))
	require.NoError(t, c.Close())
	require.Equal(t, reactor.StateDraining, c.State())
	post()
	p.drive(t, func() bool { return p.dialCloses == 1 })
	post()
	p.drive(t, func() bool { return len(results) == 3 })
	post()
	require.NoError(t, p.client.Close())
	require.Equal(t, []error{nil, reactor.ErrClosed, reactor.ErrClosed, reactor.ErrClosed}, results)
	require.ErrorIs(t, c.Post(func(error) { t.Error("called") }), reactor.ErrClosed)
	require.ErrorIs(t, c.PostWait(t.Context(), func(error) { t.Error("called") }), reactor.ErrClosed)
}

// TestConnPostOfAPredecessor checks that a function for a connection that has ended does not
// concern the next one, although that has its place in the loop.
func TestConnPostOfAPredecessor(t *testing.T) {
	var opened []*reactor.Conn
	client := newLoop(t, &hooks{open: func(c *reactor.Conn) { opened = append(opened, c) }}, nil)
	server := newLoop(t, &hooks{}, nil)
	addr := listen(t, server.Engine())
	open := func(n int) {
		require.NoError(t, client.Engine().Dial(addr, nil))
		drive(t, func() bool { return len(opened) == n }, client, server)
	}
	open(1)
	require.NoError(t, opened[0].Abort(nil))
	drive(t, func() bool { return opened[0].State() == reactor.StateClosed }, client, server)
	open(2)
	require.NotSame(t, opened[0], opened[1])
	ran := 0
	for i, want := range []error{reactor.ErrClosed, nil} {
		require.NoError(t, opened[i].Post(func(err error) {
			require.Equal(t, want, err)
			ran++
		}))
	}
	drive(t, func() bool { return ran == 2 }, client)
}

// TestConnPostOnce checks that each function of Conn.Post and Conn.PostWait has one outcome,
// while the connection closes and the loop ends: an error of the call, or one call on the loop.
func TestConnPostOnce(t *testing.T) {
	opened := make(chan *reactor.Conn, 1)
	server := start(t, &hooks{}, nil)
	client := start(t, &hooks{open: func(c *reactor.Conn) { opened <- c }}, &reactor.Config{Limits: reactor.Limits{MaxPosted: 4}})
	require.NoError(t, client.Dial(listen(t, server), nil))
	c := receive(t, opened)

	const workers, functions = 8, 500
	var calls [workers][functions]atomic.Int32
	var refused [workers][functions]bool
	var open, closed int // only the loop uses them
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range functions {
				fn := func(err error) {
					calls[w][i].Add(1)
					if err == nil {
						open++
					} else {
						closed++
					}
					if open == workers*functions/4 {
						_ = c.Close()
					}
					if closed == workers*functions/4 {
						client.Stop()
					}
				}
				if i%2 == 0 {
					refused[w][i] = c.Post(fn) != nil
				} else {
					refused[w][i] = c.PostWait(t.Context(), fn) != nil
				}
			}
		})
	}
	group.Wait()
	client.Stop()
	require.NoError(t, client.Wait())
	for w := range workers {
		for i := range functions {
			require.Equal(t, refused[w][i], calls[w][i].Load() == 0, "worker %d, function %d", w, i)
			require.LessOrEqual(t, calls[w][i].Load(), int32(1))
		}
	}
}

// TestPanicInConnPost checks that a panic in a function of Conn.Post ends only the connection.
func TestPanicInConnPost(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Post(func(error) { panic("test") }))
	require.PanicsWithValue(t, "test", func() {
		for {
			_, _ = p.client.RunOnce(0)
		}
	})
	p.drive(t, func() bool { return p.dialCloses == 1 })
	require.ErrorIs(t, p.dialCloseErr, reactor.ErrPanicked)
}

// TestPostWait checks that a goroutine that waits for room gets it when the loop runs, in the
// loop of an engine, which sleeps until it is woken.
func TestPostWait(t *testing.T) {
	e := start(t, &hooks{}, &reactor.Config{Limits: reactor.Limits{MaxPosted: 1, SafetyTimeout: testTimeout}, Idle: reactor.IdleEvent})
	l, ran := e.Loop(0), 0
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				if err := l.PostWait(t.Context(), func() { ran++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	done := make(chan int)
	require.NoError(t, l.PostWait(t.Context(), func() { done <- ran }))
	require.Equal(t, 8000, receive(t, done))
	require.Zero(t, e.Stats().Refused)
}

// TestPostWaitEnds checks the errors of PostWait: of the context, and in a callback.
func TestPostWaitEnds(t *testing.T) {
	l := newLoop(t, &hooks{}, &reactor.Config{Limits: reactor.Limits{MaxPosted: 1}})
	require.NoError(t, l.Post(func() {
		if goroutine.Fast { // Else the goroutine of a loop of NewLoop is not known.
			require.ErrorIs(t, l.PostWait(t.Context(), func() {}), verbs.ErrState)
		}
	}))
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	require.ErrorIs(t, l.PostWait(ctx, func() { t.Error("called") }), stop)
	_, err := l.RunOnce(0)
	require.NoError(t, err)
	require.EqualValues(t, 1, l.Stats().Refused)
}
