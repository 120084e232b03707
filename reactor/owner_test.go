package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/goroutine"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestOtherGoroutine checks that methods that belong to a loop panic on another goroutine,
// and that the panic names the method.
func TestOtherGoroutine(t *testing.T) {
	if !goroutine.Fast {
		t.Skip("goroutines are not told apart on this processor")
	}
	type owned struct {
		conn    *reactor.Conn
		message reactor.Message
		buffer  *reactor.Buffer
		timer   *reactor.Timer
		long    *reactor.LongMessage
	}
	got := make(chan owned, 1)
	var long *reactor.LongMessage
	h := &hooks{message: func(c *reactor.Conn, m reactor.Message) {
		o := owned{conn: c, message: m, timer: c.Loop().After(time.Hour, func() {}), long: long}
		var err error
		o.buffer, err = c.Lease(0)
		require.NoError(t, err)
		got <- o
	}}
	takesLong := &reactor.Config{MaxLongMessage: 1 << 20}
	server := start(t, &longHooks{hooks: *h, long: func(_ *reactor.Conn, m *reactor.LongMessage) { long = m }}, takesLong)
	client := start(t, &hooks{open: func(c *reactor.Conn) { _ = c.Send(make([]byte, 1<<20), nil) }}, takesLong)
	require.NoError(t, client.Dial(listen(t, server), nil))
	o := receive(t, got)
	c, l := o.conn, o.conn.Loop()
	methods := map[string]func(){
		"Conn.Abort":          func() { _ = c.Abort(nil) },
		"Conn.CheckRoom":      func() { _ = c.CheckRoom(0) },
		"Conn.CompareSwap":    func() { _ = c.CompareSwap(reactor.Remote{}, 0, 0, nil) },
		"Conn.FetchAdd":       func() { _ = c.FetchAdd(reactor.Remote{}, 0, nil) },
		"Conn.PauseRecv":      func() { _ = c.PauseRecv() },
		"Conn.ResumeRecv":     c.ResumeRecv,
		"Conn.Show":           func() { _, _ = c.Show(reactor.Piece{}, 0) },
		"Conn.Write":          func() { _ = c.Write(reactor.Remote{}, nil) },
		"Loop.Now":            func() { l.Now() },
		"Loop.Unwatch":        func() { _ = l.Unwatch(0) },
		"Loop.Watch":          func() { _ = l.Watch(0, 0, nil) },
		"LongMessage.Accept":  func() { _ = o.long.Accept(reactor.Piece{}) },
		"LongMessage.Discard": o.long.Discard,
		"LongMessage.Offset":  func() { o.long.Offset() },
		"LongMessage.Parts":   o.long.Parts,
		"Conn.Close":          func() { _ = c.Close() },
		"Conn.Flush":          c.Flush,
		"Conn.Hide":           func() { _ = c.Hide(0, nil) },
		"Conn.Lease":          func() { _, _ = c.Lease(0) },
		"Conn.Read":           func() { _ = c.Read(reactor.Remote{}, nil, reactor.Piece{}) },
		"Conn.Send":           func() { _ = c.Send(nil, nil) },
		"Conn.SendBuffer":     func() { _ = c.SendBuffer(o.buffer, nil) },
		"Conn.SendV":          func() { _ = c.SendV(nil) },
		"Conn.SetTimeout":     func() { c.SetTimeout(1) },
		"Conn.SetIdleTimeout": func() { c.SetIdleTimeout(1) },
		"Conn.State":          func() { c.State() },
		"Conn.Stats":          func() { c.Stats() },
		"Conn.WriteBytes":     func() { _ = c.WriteBytes(reactor.Remote{}, nil, nil) },
		"Message.Keep":        func() { o.message.Keep() },
		"Buffer.Release":      func() { _ = o.buffer.Release() },
		"Timer.Reset":         func() { o.timer.Reset(0) },
		"Timer.Stop":          func() { o.timer.Stop() },
		"Loop.After":          func() { l.After(0, func() {}) },
		"Loop.SetTurnFunc":    func() { l.SetTurnFunc(nil) },
	}
	for name, call := range methods {
		require.PanicsWithValue(t, "reactor: "+name+" was called on another goroutine than that of its loop: call it in a function that is passed to PostWait of the connection or the loop, or to Post if the caller must not block", call)
	}
	done := make(chan error, 2)
	require.NoError(t, l.Post(func() {
		done <- c.Send(nil, nil)
		done <- o.buffer.Release()
	}))
	require.NoError(t, receive(t, done))
	require.NoError(t, receive(t, done))
}

// TestOtherGoroutineOfEmbeddedLoop checks that a loop made with NewLoop belongs to the
// goroutine that is in RunOnce, and at other times to any one.
func TestOtherGoroutineOfEmbeddedLoop(t *testing.T) {
	var panicked any
	elsewhere := func(c *reactor.Conn) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { panicked = recover() }()
			require.Equal(t, reactor.StateOpen, c.State())
		}()
		<-done
	}
	server := &hooks{message: echo(t)}
	p := connect(t, &hooks{}, server, nil)
	elsewhere(p.accepted)
	require.Nil(t, panicked)
	done := make(chan struct{})
	go func() { // The loop is handed to another goroutine, whose callbacks may use it.
		defer close(done)
		require.NoError(t, p.dialed.Send(nil, nil))
		p.drive(t, func() bool { return p.dialed.Stats().Messages == 1 })
	}()
	<-done
	server.message = func(c *reactor.Conn, _ reactor.Message) {
		require.Equal(t, reactor.StateOpen, c.State())
		elsewhere(c)
	}
	require.NoError(t, p.dialed.Send(nil, nil))
	p.drive(t, func() bool { return p.accepted.Stats().Messages == 2 })
	require.Equal(t, goroutine.Fast, panicked != nil)
}

// TestWaitInCallback checks that methods that wait for an engine return an error in its
// callbacks, and do nothing.
func TestWaitInCallback(t *testing.T) {
	errs := make(chan error, 2)
	e := start(t, &hooks{}, nil)
	require.NoError(t, e.Loop(0).Post(func() {
		errs <- e.Shutdown(t.Context())
		errs <- e.Wait()
	}))
	for _, want := range []string{"shut down", "wait for engine"} {
		err := receive(t, errs)
		require.ErrorIs(t, err, verbs.ErrState)
		require.EqualError(t, err, "rdma: "+want+": wrong state: a callback can not wait for its own loop")
	}
	require.NoError(t, e.Loop(0).Post(func() {}), "the engine goes on")
}
