package reactor_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestLoopsInsideAnotherEpoll checks that two loops inside the application's epoll miss
// no event.
func TestLoopsInsideAnotherEpoll(t *testing.T) {
	const count = 200
	echoes := 0
	client := newLoop(t, &hooks{
		open: func(c *reactor.Conn) { require.NoError(t, c.Send([]byte("ping"), nil)) },
		message: func(c *reactor.Conn, msg reactor.Message) {
			if echoes++; echoes < count {
				require.NoError(t, c.Send(msg.Data(), nil))
			}
		},
	}, &reactor.Config{Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	server := newLoop(t, &hooks{message: echo(t)}, &reactor.Config{Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, client.Engine().Dial(ln.Addr(), nil))

	outer, err := poller.New(8)
	require.NoError(t, err)
	defer outer.Close()
	loops := []*reactor.Loop{client, server}
	for i, l := range loops {
		_, err := outer.Add(l.FD(), poller.Readable, uint64(i))
		require.NoError(t, err)
	}
	for echoes < count {
		if pollAll(t, loops...) || echoes == count {
			continue
		}
		n, err := outer.Wait(testTimeout)
		require.NoError(t, err)
		require.Positive(t, n, "no event has ended the wait")
	}
	require.Zero(t, client.Stats().Rescues+server.Stats().Rescues)
}

// pollAll calls Poll of each loop, and reports whether one is busy.
func pollAll(t *testing.T, loops ...*reactor.Loop) (busy bool) {
	for _, l := range loops {
		b, err := l.Poll(3)
		require.NoError(t, err)
		busy = busy || b
	}
	return busy
}

// TestArmedFDSignalsTimers checks that a due timer makes an armed loop's descriptor
// readable.
func TestArmedFDSignalsTimers(t *testing.T) {
	loop := newLoop(t, &hooks{}, &reactor.Config{Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	fired := false
	begin := time.Now()
	loop.After(2*time.Millisecond, func() { fired = true })
	outer, err := poller.New(1)
	require.NoError(t, err)
	defer outer.Close()
	_, err = outer.Add(loop.FD(), poller.Readable, 0)
	require.NoError(t, err)
	for !fired {
		if pollAll(t, loop) || fired {
			continue
		}
		_, err := outer.Wait(testTimeout)
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, time.Since(begin), 2*time.Millisecond)
}

// TestArmedFDSignalsPosts checks that a posted function makes an armed loop's descriptor
// readable.
func TestArmedFDSignalsPosts(t *testing.T) {
	loop := newLoop(t, &hooks{}, &reactor.Config{Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	outer, err := poller.New(1)
	require.NoError(t, err)
	defer outer.Close()
	_, err = outer.Add(loop.FD(), poller.Readable, 0)
	require.NoError(t, err)
	for n := 0; n < 100; {
		ran := false
		go func() { _ = loop.Post(func() { ran = true; n++ }) }()
		for !ran {
			if pollAll(t, loop) || ran {
				continue
			}
			woken, err := outer.Wait(testTimeout)
			require.NoError(t, err)
			require.Positive(t, woken)
		}
	}
}

func TestRunOnceWaits(t *testing.T) {
	for _, policy := range []reactor.IdlePolicy{reactor.IdleEvent, reactor.IdleAdaptive, reactor.IdleBusy} {
		loop := newLoop(t, &hooks{}, &reactor.Config{Idle: policy, Limits: reactor.Limits{SafetyTimeout: testTimeout}})
		begin := time.Now()
		n, err := loop.RunOnce(3 * time.Millisecond)
		require.NoError(t, err)
		require.Zero(t, n)
		require.GreaterOrEqual(t, time.Since(begin), 3*time.Millisecond)

		fired := false
		loop.After(time.Millisecond, func() { fired = true })
		n, err = loop.RunOnce(-1)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.True(t, fired)
	}
}

func TestEmbeddedLoopEnds(t *testing.T) {
	ended := 0
	loop := newLoop(t, &hooks{shutdown: func(*reactor.Loop) { ended++ }}, nil)
	loop.Engine().Stop()
	var err error
	for err == nil {
		_, err = loop.RunOnce(-1)
	}
	require.ErrorIs(t, err, reactor.ErrClosed)
	require.NoError(t, loop.Close())
	require.NoError(t, loop.Close())
	_, err = loop.Poll(1)
	require.ErrorIs(t, err, reactor.ErrClosed)
	require.Equal(t, 1, ended)
	require.NoError(t, loop.Engine().Wait())
}

func TestFailedBootOfAnEmbeddedLoop(t *testing.T) {
	bootErr := errors.New("boot failed")
	_, err := reactor.NewLoop(openSoft(t), &hooks{}, &reactor.Config{OnBoot: func(*reactor.Loop) error { return bootErr }})
	require.ErrorIs(t, err, bootErr)
}

// TestFailedBootEndsDials checks that connections dialed in OnBoot end with OnDialError
// if OnBoot fails.
func TestFailedBootEndsDials(t *testing.T) {
	server := newLoop(t, &hooks{}, nil)
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	bootErr := errors.New("boot failed")
	var ends []error
	_, err = reactor.NewLoop(openSoft(t), &hooks{
		dialError: func(_ *reactor.DialOptions, err error) { ends = append(ends, err) },
	}, &reactor.Config{OnBoot: func(l *reactor.Loop) error {
		require.NoError(t, l.Engine().Dial(ln.Addr(), nil))
		return bootErr
	}})
	require.ErrorIs(t, err, bootErr)
	require.Len(t, ends, 1)
	require.ErrorIs(t, ends[0], reactor.ErrShutdown)
}

func TestLoopOfAnEngineIsNotEmbedded(t *testing.T) {
	engine := start(t, &hooks{}, nil)
	_, err := engine.Loop(0).RunOnce(0)
	require.ErrorIs(t, err, verbs.ErrState)
}

// TestWakesByCause checks that sleeps are counted by the cause that ended them.
func TestWakesByCause(t *testing.T) {
	loop := newLoop(t, &hooks{}, &reactor.Config{Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	err = loop.Watch(int(r.Fd()), poller.Readable, func(poller.Readiness) { _, _ = r.Read(make([]byte, 8)) })
	require.NoError(t, err)
	arm := func() {
		for pollAll(t, loop) {
		}
	}
	for _, wake := range []func(){
		func() { require.NoError(t, loop.Post(func() {})) },
		func() { _, _ = w.WriteString("x") },
		func() {},
	} {
		arm()
		wake()
		_, err := loop.RunOnce(0)
		require.NoError(t, err)
		arm()
	}
	require.NoError(t, loop.Close())
	stats := loop.Stats()
	require.Positive(t, stats.WakesPost)
	require.Positive(t, stats.WakesWatch)
	require.Positive(t, stats.WakesLimit)
}

// TestWaitRefusedForEmbeddedLoop checks that Wait and Shutdown fail while a loop made
// with NewLoop has not ended.
func TestWaitRefusedForEmbeddedLoop(t *testing.T) {
	loop := newLoop(t, &hooks{}, nil)
	require.ErrorIs(t, loop.Engine().Wait(), verbs.ErrState)
	require.ErrorIs(t, loop.Engine().Shutdown(t.Context()), verbs.ErrState)
	_, err := loop.RunOnce(0)
	require.NoError(t, err, "the loop has not ended")
	require.NoError(t, loop.Close())
	require.NoError(t, loop.Engine().Shutdown(t.Context()))
}

// TestCallbacksCanNotRunTheLoop checks that RunOnce, Poll and Close are refused in every
// callback.
func TestCallbacksCanNotRunTheLoop(t *testing.T) {
	server := newLoop(t, &hooks{open: func(c *reactor.Conn) { require.NoError(t, c.Send([]byte("text"), nil)) }}, nil)
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	var loop *reactor.Loop
	called := map[string]int{}
	refused := func(callback string) {
		called[callback]++
		_, err := loop.RunOnce(0)
		require.ErrorIs(t, err, verbs.ErrState, callback)
		_, err = loop.Poll(1)
		require.ErrorIs(t, err, verbs.ErrState, callback)
		require.ErrorIs(t, loop.Close(), verbs.ErrState, callback)
	}
	h := &hooks{
		boot:      func(l *reactor.Loop) error { loop = l; refused("OnBoot"); return nil },
		open:      func(*reactor.Conn) {},
		close:     func(*reactor.Conn, error) { refused("OnClose") },
		dialError: func(*reactor.DialOptions, error) { refused("OnDialError") },
		message:   func(*reactor.Conn, reactor.Message) { refused("OnMessage") },
		request: func(req *reactor.ConnRequest) {
			refused("OnConnectRequest")
			require.NoError(t, req.Reject(nil))
		},
		shutdown: func(*reactor.Loop) {
			called["OnShutdown"]++
			require.ErrorIs(t, loop.Close(), verbs.ErrState)
		},
	}
	loop, err = reactor.NewLoop(openSoft(t), h, configOf(h, nil))
	require.NoError(t, err)
	own, err := loop.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, server.Engine().Dial(own.Addr(), nil))
	require.NoError(t, loop.Engine().Dial(ln.Addr(), nil))
	drive(t, func() bool { return called["OnMessage"] == 1 && called["OnConnectRequest"] == 1 }, loop, server)
	require.NoError(t, loop.Engine().Dial(ln.Addr(), nil))
	require.NoError(t, loop.Post(func() { refused("Post") }))
	require.NoError(t, loop.Close())
	require.Equal(t, map[string]int{
		"OnBoot": 1, "OnConnectRequest": 1, "OnMessage": 1,
		"OnClose": 1, "OnDialError": 1, "OnShutdown": 1, "Post": 1,
	}, called)
}

// TestPollPublishesStats checks that Stats is up to date while the application waits
// after Poll.
func TestPollPublishesStats(t *testing.T) {
	loop := newLoop(t, &hooks{}, nil)
	loop.After(time.Hour, func() {})
	for pollAll(t, loop) {
	}
	require.EqualValues(t, 1, loop.Stats().Timers)
}

// TestPollEndsAtItsLimit checks that a loop that always has work leaves Poll after the given
// number of turns, so that the application can look at its own descriptors.
func TestPollEndsAtItsLimit(t *testing.T) {
	loop := newLoop(t, &hooks{}, nil)
	calls := 0
	var work func()
	work = func() { calls++; _ = loop.Post(work) }
	work()
	for _, turns := range []int{5, 1, 0, -1} {
		before := calls
		busy, err := loop.Poll(turns)
		require.NoError(t, err)
		require.True(t, busy)
		require.Equal(t, max(1, turns), calls-before)
	}
}

// TestPollFollowsTheIdlePolicy checks when a loop without work is prepared for a wait. A wait
// that a descriptor of the application has ended is no reason to spin.
func TestPollFollowsTheIdlePolicy(t *testing.T) {
	const spin = time.Millisecond
	for _, policy := range []reactor.IdlePolicy{reactor.IdleEvent, reactor.IdleAdaptive} {
		loop := newLoop(t, &hooks{}, &reactor.Config{Idle: policy, SpinBudget: spin})
		begin, before := time.Now(), reactor.Turn(loop)
		for pollAll(t, loop) {
		}
		if policy == reactor.IdleAdaptive {
			require.GreaterOrEqual(t, time.Since(begin), spin)
		} else {
			require.EqualValues(t, 5, reactor.Turn(loop)-before)
		}
		before = reactor.Turn(loop)
		require.False(t, pollAll(t, loop))
		require.EqualValues(t, 1, reactor.Turn(loop)-before, policy)
	}
	busy := newLoop(t, &hooks{}, &reactor.Config{Idle: reactor.IdleBusy})
	for range 1000 {
		require.True(t, pollAll(t, busy))
	}
}

// TestPollEndsTheLoop checks that Poll is not false when the loop has ended, because then its
// descriptor is closed.
func TestPollEndsTheLoop(t *testing.T) {
	loop := newLoop(t, &hooks{}, &reactor.Config{Idle: reactor.IdleEvent})
	for pollAll(t, loop) {
	}
	loop.Engine().Stop()
	var err error
	for err == nil {
		var busy bool
		busy, err = loop.Poll(1)
		require.True(t, busy || err != nil)
	}
	require.ErrorIs(t, err, reactor.ErrClosed)
}

// TestStopInOnBoot checks that a loop which is stopped in OnBoot still ends in RunOnce,
// with OnShutdown as the last callback.
func TestStopInOnBoot(t *testing.T) {
	var calls []string
	loop, err := reactor.NewLoop(openSoft(t), &hooks{}, &reactor.Config{
		OnBoot:     func(l *reactor.Loop) error { calls = append(calls, "boot"); l.Engine().Stop(); return nil },
		OnShutdown: func(*reactor.Loop) { calls = append(calls, "shutdown") },
	})
	require.NoError(t, err)
	for err == nil {
		_, err = loop.RunOnce(0)
	}
	require.ErrorIs(t, err, reactor.ErrClosed)
	require.Equal(t, []string{"boot", "shutdown"}, calls)
	require.NoError(t, loop.Close())
}
