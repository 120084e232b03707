//go:build linux

package reactor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A countedContext is a context whose calls of AfterFunc are counted while they have effect.
type countedContext struct {
	context.Context
	done    chan struct{} // never closed
	watched atomic.Int64
	late    time.Duration // how long after the end of the context the functions are called
}

func newCountedContext(ctx context.Context) *countedContext {
	return &countedContext{Context: ctx, done: make(chan struct{})}
}

// Done returns another channel than the embedded context, because context.AfterFunc otherwise
// calls methods of that one only.
func (c *countedContext) Done() <-chan struct{} { return c.done }

// AfterFunc is what context.AfterFunc calls.
func (c *countedContext) AfterFunc(f func()) (stop func() bool) {
	c.watched.Add(1)
	end := context.AfterFunc(c.Context, func() {
		time.Sleep(c.late)
		c.watched.Add(-1)
		f()
	})
	return func() bool {
		stopped := end()
		if stopped {
			c.watched.Add(-1)
		}
		return stopped
	}
}

// A canceling is a dial to a closingPair's server that a context cancels.
type canceling struct {
	*closingPair
	ctx      *countedContext
	cancel   context.CancelCauseFunc
	requests []*reactor.ConnRequest // requests of the dial that are not answered
	opened   *reactor.Conn
	failed   []error // arguments of OnDialError
	ends     []error // arguments of OnClose
	accepts  []error // arguments of OnAcceptError of the server
	accepted *reactor.Conn
	closes   []error // arguments of OnClose of the server
}

var errCanceled = errors.New("not needed any more")

// cancelOnPaths calls fn for both paths, with a listener at port 2 of the server.
func cancelOnPaths(t *testing.T, fn func(c *canceling)) {
	t.Helper()
	closeOnPaths(t, nil, func(p *closingPair) {
		c := &canceling{closingPair: p}
		ctx, cancel := context.WithCancelCause(p.t.Context())
		c.ctx, c.cancel = newCountedContext(ctx), cancel
		defer cancel(nil)
		_, err := p.server.Listen(p.serverHost.AddrPort(2), &reactor.ListenOptions{Handler: &hooks{
			request:     func(r *reactor.ConnRequest) { c.requests = append(c.requests, r) },
			acceptError: func(_ *reactor.ConnRequest, err error) { c.accepts = append(c.accepts, err) },
			open:        func(conn *reactor.Conn) { c.accepted = conn },
			close:       func(_ *reactor.Conn, err error) { c.closes = append(c.closes, err) },
		}})
		require.NoError(p.t, err)
		fn(c)
	})
}

// dial dials the listener of cancelOnPaths.
func (c *canceling) dial() error {
	return c.client.Loop().Engine().Dial(c.serverHost.AddrPort(2), &reactor.DialOptions{Ctx: c.ctx, Handler: &hooks{
		open:      func(conn *reactor.Conn) { c.opened = conn },
		dialError: func(_ *reactor.DialOptions, err error) { c.failed = append(c.failed, err) },
		close:     func(_ *reactor.Conn, err error) { c.ends = append(c.ends, err) },
	}})
}

// wantCanceled checks that the dial has ended with the cause, and that nothing is left of it.
func (c *canceling) wantCanceled(cause error) {
	c.t.Helper()
	c.Until(time.Millisecond, func() bool { return len(c.failed) > 0 })
	c.For(time.Minute)
	require.Len(c.t, c.failed, 1)
	require.ErrorIs(c.t, c.failed[0], cause)
	require.Nil(c.t, c.opened)
	require.Empty(c.t, c.ends)
	require.Zero(c.t, c.ctx.watched.Load())
	require.Equal(c.t, 1, c.client.Loop().Conns())
}

func TestCancelDial(t *testing.T) {
	t.Run("before Dial", func(t *testing.T) {
		cancelOnPaths(t, func(c *canceling) {
			c.cancel(errCanceled)
			require.ErrorIs(c.t, c.dial(), errCanceled)
			c.For(time.Second)
			require.Empty(c.t, c.failed)
			require.Empty(c.t, c.requests)
			require.Zero(c.t, c.ctx.watched.Load())
		})
	})
	t.Run("before the loop sees the call", func(t *testing.T) {
		cancelOnPaths(t, func(c *canceling) {
			require.NoError(c.t, c.dial())
			c.cancel(errCanceled)
			c.wantCanceled(errCanceled)
			require.Empty(c.t, c.requests)
		})
	})
	t.Run("while the server decides", func(t *testing.T) {
		cancelOnPaths(t, func(c *canceling) {
			require.NoError(c.t, c.dial())
			c.Until(time.Second, func() bool { return len(c.requests) == 1 })
			c.cancel(errCanceled)
			c.For(time.Millisecond)
			require.NoError(c.t, c.requests[0].Accept(nil))
			c.wantCanceled(errCanceled)
			require.Len(c.t, c.accepts, 1)
			require.ErrorIs(c.t, c.accepts[0], verbs.ErrPeerGone)
			require.EqualError(c.t, c.failed[0], "dial "+c.serverHost.AddrPort(2).String()+": not needed any more")
			require.Nil(c.t, c.accepted)
		})
	})
	t.Run("no answer", func(t *testing.T) {
		cancelOnPaths(t, func(c *canceling) {
			require.NoError(c.t, c.dial())
			c.Until(time.Second, func() bool { return len(c.requests) == 1 })
			c.Cut(c.serverHost, c.clientProcess.Host())
			c.For(3 * time.Second)
			require.Empty(c.t, c.failed)
			c.cancel(errCanceled)
			c.wantCanceled(errCanceled)
			c.Heal(c.serverHost, c.clientProcess.Host())
		})
	})
	t.Run("when the answer has arrived", func(t *testing.T) {
		cancelOnPaths(t, func(c *canceling) {
			c.ctx.late = time.Millisecond // The loop sees the answer first.
			require.NoError(c.t, c.dial())
			c.Until(time.Second, func() bool { return len(c.requests) == 1 })
			c.On(c.client.Loop(), func() { // Meanwhile the answer arrives.
				require.NoError(c.t, c.requests[0].Accept(nil))
				c.For(time.Millisecond)
				c.cancel(errCanceled)
			})
			c.wantCanceled(errCanceled)
			require.NotNil(c.t, c.accepted)
			require.Len(c.t, c.closes, 1)
			require.Equal(c.t, &reactor.CloseError{Cause: reactor.ErrPeerClosed, Peer: reactor.CloseReason{Kind: reactor.CloseAborted}}, c.closes[0])
		})
	})
	t.Run("after OnOpen", func(t *testing.T) {
		cancelOnPaths(t, func(c *canceling) {
			require.NoError(c.t, c.dial())
			c.Until(time.Second, func() bool { return len(c.requests) == 1 })
			require.NoError(c.t, c.requests[0].Accept(nil))
			c.Until(time.Second, func() bool { return c.opened != nil })
			require.Zero(c.t, c.ctx.watched.Load())
			c.cancel(errCanceled)
			c.For(time.Minute)
			require.Equal(c.t, reactor.StateOpen, c.opened.State())
			require.Empty(c.t, c.failed)
		})
	})
	t.Run("after a reject", func(t *testing.T) {
		cancelOnPaths(t, func(c *canceling) {
			require.NoError(c.t, c.dial())
			c.Until(time.Second, func() bool { return len(c.requests) == 1 })
			require.NoError(c.t, c.requests[0].Reject(nil))
			c.Until(time.Second, func() bool { return len(c.failed) == 1 })
			require.Zero(c.t, c.ctx.watched.Load())
			c.cancel(errCanceled)
			c.wantCanceled(cm.ErrRefused)
		})
	})
}

// TestDialDeadline checks that the deadline of a context limits a dial.
func TestDialDeadline(t *testing.T) {
	cancelOnPaths(t, func(c *canceling) {
		ctx, cancel := context.WithTimeout(c.ctx.Context, time.Second)
		defer cancel()
		c.ctx = newCountedContext(ctx)
		require.NoError(c.t, c.dial())
		begin := c.Now()
		c.Until(time.Minute, func() bool { return len(c.failed) > 0 })
		requireTook(c.t, time.Second, c.Now()-begin)
		c.wantCanceled(context.DeadlineExceeded)
	})
}

// TestCancelDialRace cancels many dials while they open, on another goroutine, and checks that
// each dial has one callback.
func TestCancelDialRace(t *testing.T) {
	const dials = 200
	results, requests := make(chan error, 2*dials), make(chan struct{}, 2*dials)
	server := start(t, &hooks{request: func(r *reactor.ConnRequest) { requests <- struct{}{}; _ = r.Accept(nil) }}, nil)
	client := start(t, &hooks{
		open:      func(c *reactor.Conn) { results <- nil; _ = c.Close() },
		dialError: func(_ *reactor.DialOptions, err error) { results <- err },
	}, nil)
	to := listen(t, server)
	for i := range dials {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		require.NoError(t, client.Dial(to, &reactor.DialOptions{Ctx: ctx}))
		go func() {
			if i%4 > 0 { // when about as many requests have arrived
				<-requests
			}
			cancel(errCanceled)
		}()
	}
	canceled := 0
	for range dials {
		if err := receive(t, results); err != nil {
			require.ErrorIs(t, err, errCanceled)
			canceled++
		}
	}
	t.Logf("%d of %d dials were canceled before they were open", canceled, dials)
	shutdown(t, client)
	shutdown(t, server)
	close(requests) // Then all goroutines end.
	require.Empty(t, results)
}
