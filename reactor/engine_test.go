package reactor_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestBootAndShutdownOnEveryLoop(t *testing.T) {
	var booted, ended atomic.Int32
	engine := start(t, &hooks{
		boot:     func(l *reactor.Loop) error { booted.Add(1 << (8 * l.Index())); return nil },
		shutdown: func(l *reactor.Loop) { ended.Add(1 << (8 * l.Index())) },
	}, &reactor.Config{NumLoops: 3})
	require.EqualValues(t, 0x010101, booted.Load())
	require.Equal(t, 3, engine.NumLoops())
	require.Nil(t, engine.Loop(3))
	require.Error(t, engine.Start(), "the engine was started before")
	shutdown(t, engine)
	require.EqualValues(t, 0x010101, ended.Load())
}

func TestFailedBootStopsTheEngine(t *testing.T) {
	bootErr := errors.New("boot failed")
	var ended atomic.Int32
	engine, err := reactor.New(openSoft(t), &hooks{}, &reactor.Config{
		NumLoops: 2,
		OnBoot: func(l *reactor.Loop) error {
			if l.Index() == 1 {
				return bootErr
			}
			return nil
		},
		OnShutdown: func(*reactor.Loop) { ended.Add(1) },
	})
	require.NoError(t, err)
	require.ErrorIs(t, engine.Start(), bootErr)
	require.NoError(t, engine.Wait())
	require.EqualValues(t, 1, ended.Load(), "OnShutdown is called only on the loop whose OnBoot succeeded")
}

// TestEachLoop checks that the loops of an engine can differ, and that only a pinned loop has a
// thread with its name.
func TestEachLoop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads are pinned on Linux only")
	}
	var given [3]reactor.LoopConfig
	engine := start(t, &hooks{}, &reactor.Config{
		NumLoops: 3, CPUs: []int{0, -1}, Idle: reactor.IdleEvent,
		EachLoop: func(i int, l *reactor.LoopConfig) {
			given[i] = *l
			if i == 2 {
				l.Name, l.Idle = "orders of today, and more", reactor.IdleAdaptive
			}
		},
	})
	for i, cpu := range []int{0, -1, 0} {
		want := reactor.LoopConfig{Name: fmt.Sprint("loop ", i), CPU: cpu, Idle: reactor.IdleEvent, SpinBudget: 50 * time.Microsecond}
		require.Equal(t, want, given[i])
	}
	require.Equal(t, "loop 1", engine.Loop(1).Name())
	require.Equal(t, "orders of today, and more", engine.Loop(2).Name())
	names := make(map[string]int)
	threads, err := filepath.Glob("/proc/self/task/*/comm")
	require.NoError(t, err)
	for _, file := range threads {
		name, _ := os.ReadFile(file) // A thread may have ended.
		names[strings.TrimSpace(string(name))]++
	}
	require.Equal(t, [3]int{1, 0, 1}, [3]int{names["loop 0"], names["loop 1"], names["orders of today"]})
}

func TestPinned(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads are pinned on Linux only")
	}
	engine := start(t, &hooks{}, &reactor.Config{CPUs: []int{0}})
	shutdown(t, engine)
	engine, err := reactor.New(openSoft(t), &hooks{}, &reactor.Config{CPUs: []int{1023}})
	require.NoError(t, err)
	require.EqualError(t, engine.Start(), "rdma: pin loop: CPU 1023: this system has no such processor, or the process may not use it")
}

// TestBusyLoopsShareNoCPU checks that loops that are always busy can not be pinned to one
// processor.
func TestBusyLoopsShareNoCPU(t *testing.T) {
	p := openSoft(t)
	for _, cpus := range [][]int{{3, 3}, {3}} {
		_, err := reactor.New(p, &hooks{}, &reactor.Config{NumLoops: 2, CPUs: cpus, Idle: reactor.IdleBusy})
		require.EqualError(t, err, "rdma: configure reactor: CPU 3: two loops that are always busy can not share a processor")
	}
	for _, cfg := range []reactor.Config{{NumLoops: 2, CPUs: []int{0, 0}}, {CPUs: []int{0, 0}, Idle: reactor.IdleBusy}} {
		engine, err := reactor.New(p, &hooks{}, &cfg)
		require.NoError(t, err)
		shutdown(t, engine)
	}
}

// TestWarningOfBusyLoops checks that Config.Logger gets a warning if, and only if, busy loops
// leave no thread to other goroutines.
func TestWarningOfBusyLoops(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var log bytes.Buffer
	for loops := 1; loops <= 2; loops++ {
		require.Empty(t, log.String())
		start(t, &hooks{}, &reactor.Config{NumLoops: loops, Idle: reactor.IdleBusy, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	}
	require.Contains(t, log.String(), `level=WARN msg="reactor: loops that are always busy leave no thread to other goroutines" loops=2 GOMAXPROCS=2`)
}

func TestPostFromManyGoroutines(t *testing.T) {
	for _, policy := range []reactor.IdlePolicy{reactor.IdleEvent, reactor.IdleAdaptive, reactor.IdleBusy} {
		engine := start(t, &hooks{}, &reactor.Config{Idle: policy, Limits: reactor.Limits{SafetyTimeout: testTimeout}})
		const senders, each = 4, 500
		done := make(chan struct{})
		// Only posted functions use count, all on the loop's goroutine.
		count := 0
		for range senders {
			go func() {
				for range each {
					err := engine.Loop(0).Post(func() {
						if count++; count == senders*each {
							close(done)
						}
					})
					assert.NoError(t, err)
				}
			}()
		}
		receive(t, done)
	}
}

// TestIdlePolicyChangesAtRunTime checks that the idle policy can change while the loop
// runs or sleeps.
func TestIdlePolicyChangesAtRunTime(t *testing.T) {
	engine := start(t, &hooks{}, &reactor.Config{Idle: reactor.IdleEvent, Limits: reactor.Limits{SafetyTimeout: testTimeout}})
	loop := engine.Loop(0)
	await(t, func() bool { return loop.Stats().Turns > 0 })
	require.NoError(t, loop.SetIdle(reactor.IdleBusy))
	looks := loop.Stats().EpollChecks
	await(t, func() bool { return loop.Stats().EpollChecks > looks+10 })
	require.NoError(t, loop.SetIdle(reactor.IdleEvent))
	sleeps := loop.Stats().Sleeps
	await(t, func() bool { _ = loop.Post(func() {}); return loop.Stats().Sleeps > sleeps+10 })
	var param *verbs.ParamError
	require.ErrorAs(t, loop.SetIdle(3), &param)
}

// TestThousandConnections opens, uses and closes a thousand connections on two loops.
func TestThousandConnections(t *testing.T) {
	const total, rounds = 1000, 3
	cfg := &reactor.Config{
		NumLoops:    2,
		MaxInFlight: 4,
		MaxMessage:  256,
		Limits:      reactor.Limits{SafetyTimeout: testTimeout},
	}
	server := start(t, &hooks{message: echo(t)}, cfg)
	results := make(chan error, total)
	var perLoop [2]atomic.Int32
	client := start(t, &hooks{
		open: func(c *reactor.Conn) {
			perLoop[c.Loop().Index()].Add(1)
			assert.NoError(t, c.Send([]byte("hello"), nil))
		},
		message: func(c *reactor.Conn, msg reactor.Message) {
			assert.Equal(t, "hello", string(msg.Data()))
			if c.Stats().Messages < rounds {
				assert.NoError(t, c.Send(msg.Data(), nil))
				return
			}
			assert.NoError(t, c.Close())
		},
		close:     func(_ *reactor.Conn, err error) { results <- err },
		dialError: func(_ *reactor.DialOptions, err error) { results <- err },
	}, cfg)
	addr := listen(t, server)
	for range total {
		require.NoError(t, client.Dial(addr, nil))
	}
	for range total {
		require.NoError(t, receive(t, results))
	}
	require.EqualValues(t, total, perLoop[0].Load()+perLoop[1].Load())
	require.Positive(t, perLoop[0].Load())
	require.Positive(t, perLoop[1].Load())
	shutdown(t, client)
	shutdown(t, server)

	for _, s := range []reactor.Stats{client.Stats(), server.Stats()} {
		require.EqualValues(t, total, s.Opened)
		require.EqualValues(t, total, s.Closed)
		require.EqualValues(t, total*rounds, s.Messages)
		require.EqualValues(t, total*rounds, s.Accepted)
		require.EqualValues(t, total*rounds, s.Confirmed)
		require.Zero(t, s.Failed)
		require.Zero(t, s.Conns)
		require.Zero(t, s.Rescues)
		require.Zero(t, s.DrainTimeouts)
	}
	require.EqualValues(t, total, client.Stats().Dials)
	require.EqualValues(t, total, server.Stats().Requests)
	require.EqualValues(t, total, server.Stats().Accepts)
}

// TestPostIsBounded checks that Post returns ErrTooManyPosted while Config.Limits.MaxPosted
// functions wait.
func TestPostIsBounded(t *testing.T) {
	loop := newLoop(t, &hooks{}, &reactor.Config{Limits: reactor.Limits{MaxPosted: 1}})
	ran := 0
	require.NoError(t, loop.Post(func() { ran++ }))
	require.ErrorIs(t, loop.Post(func() { ran++ }), reactor.ErrTooManyPosted)
	drive(t, func() bool { return ran == 1 }, loop)
	require.NoError(t, loop.Close())
	require.EqualValues(t, 1, loop.Stats().Refused)
	require.ErrorIs(t, loop.Post(func() {}), reactor.ErrClosed)
	require.EqualValues(t, 2, loop.Stats().Refused, "Post also counts functions that it refuses after the loop has ended")
}

// TestInvalidUse checks that invalid arguments and forbidden calls in a callback return
// errors.
func TestInvalidUse(t *testing.T) {
	_, err := reactor.New(nil, nil, nil)
	require.EqualError(t, err, "rdma: create engine: provider: missing")
	_, err = reactor.New((*soft.Provider)(nil), &hooks{}, nil)
	require.EqualError(t, err, "rdma: create engine: provider: missing")
	_, err = reactor.New(openSoft(t), nil, nil)
	require.EqualError(t, err, "rdma: create engine: handler: missing")
	var param *verbs.ParamError
	_, err = reactor.New(openSoft(t), &hooks{}, &reactor.Config{NumLoops: -1})
	require.ErrorAs(t, err, &param)
	require.Equal(t, "NumLoops", param.Field)
	for field, cfg := range map[string]*reactor.Config{"NumLoops": {NumLoops: 2}, "CPU": {CPUs: []int{0}}} {
		_, err = reactor.NewLoop(openSoft(t), &hooks{}, cfg)
		require.ErrorAs(t, err, &param)
		require.Equal(t, field, param.Field)
	}

	loop := newLoop(t, &hooks{}, nil)
	called := false
	require.NoError(t, loop.Post(func() {
		called = true
		_, err := loop.RunOnce(0)
		require.ErrorIs(t, err, verbs.ErrState)
		_, err = loop.Poll(1)
		require.ErrorIs(t, err, verbs.ErrState)
		require.ErrorIs(t, loop.Close(), verbs.ErrState)
	}))
	drive(t, func() bool { return called }, loop)
}

// TestDevicesAreNotShared checks that two engines can not have one soft device, and that the
// error says where the engine was made that has it.
func TestDevicesAreNotShared(t *testing.T) {
	provider := openSoft(t)
	first, err := reactor.New(provider, &hooks{}, nil)
	require.NoError(t, err)
	for range 2 {
		_, err = reactor.NewLoop(provider, &hooks{}, nil)
		require.ErrorIs(t, err, verbs.ErrBusy)
		require.Regexp(t, `^rdma: use soft\d+: still in use: the engine that was made at .*/reactor/engine_test.go:\d+ has the device until it has ended$`, err.Error())
	}
	shutdown(t, first)
	second, err := reactor.NewLoop(provider, &hooks{}, nil)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

// TestLoopsOfADevice checks that NumLoops alone decides how many loops use a soft device, on
// both sides of both paths.
func TestLoopsOfADevice(t *testing.T) {
	const loops = 5
	for path, at := range map[soft.Path]string{soft.PathLocal: "127.0.0.1:0", soft.PathWire: "127.0.0.2:0"} {
		port := freeport.UDP(t)
		engine := func(h reactor.Handler) *reactor.Engine {
			p, err := soft.Open(&soft.Config{Path: path, WirePort: port})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			e, err := reactor.New(p, h, &reactor.Config{NumLoops: loops})
			require.NoError(t, err)
			require.NoError(t, e.Start())
			t.Cleanup(func() { shutdown(t, e) })
			return e
		}
		served := make(chan int, loops)
		server := engine(&hooks{message: func(c *reactor.Conn, msg reactor.Message) {
			served <- c.Loop().Index()
			assert.NoError(t, c.Send(msg.Data(), nil))
		}})
		answered := make(chan int, loops)
		client := engine(&hooks{
			open:    func(c *reactor.Conn) { assert.NoError(t, c.Send([]byte("hello"), nil)) },
			message: func(c *reactor.Conn, _ reactor.Message) { answered <- c.Loop().Index() },
		})
		ln, err := server.Listen(netip.MustParseAddrPort(at), nil)
		require.NoError(t, err)
		for i := range loops {
			require.NoError(t, client.Dial(ln.Addr(), &reactor.DialOptions{Loop: client.Loop(i)}))
		}
		var want, servers, clients []int
		for i := range loops {
			want, servers, clients = append(want, i), append(servers, receive(t, served)), append(clients, receive(t, answered))
		}
		require.ElementsMatch(t, want, servers, path)
		require.ElementsMatch(t, want, clients, path)
	}
}

// TestIdleState checks what decides whether a loop polls and whether it calls the Go scheduler:
// the number of processors, and whether the loop is pinned.
func TestIdleState(t *testing.T) {
	state := func(cfg *reactor.Config) [2]bool {
		e := start(t, &hooks{}, cfg)
		shutdown(t, e)
		alone, locked := reactor.IdleState(e.Loop(0))
		return [2]bool{alone, locked}
	}
	procs := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(procs)
	require.Equal(t, [2]bool{false, false}, state(nil))
	require.Equal(t, [2]bool{false, true}, state(&reactor.Config{CPUs: []int{0}}))
	runtime.GOMAXPROCS(1)
	require.Equal(t, [2]bool{true, false}, state(nil))
	alone, locked := reactor.IdleState(newLoop(t, &hooks{}, nil))
	require.True(t, alone)
	require.False(t, locked)
}
