package gnetrdma_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// hooks is a handler that calls the functions that are set.
type hooks struct {
	gnet.BuiltinEventEngine
	boot     func(gnet.Engine) gnet.Action
	open     func(gnet.Conn) ([]byte, gnet.Action)
	traffic  func(gnet.Conn) gnet.Action
	close    func(gnet.Conn, error) gnet.Action
	shutdown func()
	tick     func() (time.Duration, gnet.Action)
}

func (h *hooks) OnBoot(e gnet.Engine) gnet.Action {
	if h.boot == nil {
		return gnet.None
	}
	return h.boot(e)
}

func (h *hooks) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	if h.open == nil {
		return nil, gnet.None
	}
	return h.open(c)
}

func (h *hooks) OnTraffic(c gnet.Conn) gnet.Action {
	if h.traffic == nil {
		return gnet.None
	}
	return h.traffic(c)
}

func (h *hooks) OnClose(c gnet.Conn, err error) gnet.Action {
	if h.close == nil {
		return gnet.None
	}
	return h.close(c, err)
}

func (h *hooks) OnShutdown(gnet.Engine) {
	if h.shutdown != nil {
		h.shutdown()
	}
}

func (h *hooks) OnTick() (time.Duration, gnet.Action) {
	if h.tick == nil {
		return time.Hour, gnet.None
	}
	return h.tick()
}

// A server is a running call of Rotate, and a Network for its clients.
type server struct {
	t       *testing.T
	addr    string // of RDMA, "127.0.0.1:port"
	engine  gnet.Engine
	network *stream.Network
	ended   chan error
}

// run serves the handler over RDMA, and at further addresses.
func run(t *testing.T, h *hooks, cfg gnetrdma.Config, addrs []string, opts ...gnet.Option) *server {
	s := &server{t: t, network: newNetwork(t), ended: make(chan error, 1)}
	ln, err := s.network.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = ln.Addr().String() // No other program uses it now.
	require.NoError(t, ln.Close())
	booted := make(chan struct{})
	boot := h.boot
	h.boot = func(e gnet.Engine) gnet.Action {
		defer close(booted)
		s.engine = e
		if boot == nil {
			return gnet.None
		}
		return boot(e)
	}
	opts = append(opts, gnet.WithLogLevel(logging.ErrorLevel))
	go func() { s.ended <- cfg.Rotate(h, append(addrs, "rdma://"+s.addr), opts...) }()
	<-booted
	t.Cleanup(s.stop)
	return s
}

// stop makes Rotate return, if it has not returned yet.
func (s *server) stop() {
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.engine.Stop(stopped) // With this context, Stop does not wait.
	s.wait()
}

// wait waits until Rotate has returned.
func (s *server) wait() {
	require.NoError(s.t, <-s.ended)
	s.ended <- nil
}

// newNetwork makes a Network with a device of its own.
func newNetwork(t *testing.T) *stream.Network {
	device, err := soft.Open(nil)
	require.NoError(t, err)
	n, err := stream.New(device, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, n.Close())
		require.NoError(t, device.Close())
	})
	return n
}

// dial opens a connection over RDMA.
func (s *server) dial() *stream.Conn {
	c, err := s.network.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	return c.(*stream.Conn)
}

// echo sends back what has arrived.
func echo(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b)
	return gnet.None
}

// requireEcho sends a message and waits for the same message.
func requireEcho(t *testing.T, c net.Conn, message string) {
	_, err := io.WriteString(c, message)
	require.NoError(t, err)
	b := make([]byte, len(message))
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, message, string(b))
}

// TestBothNetworks checks one handler that serves RDMA and TCP at once, CountConnections and
// Reactor.
func TestBothNetworks(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	s := run(t, &hooks{traffic: echo}, gnetrdma.Config{}, []string{"tcp://" + addr})
	c1 := s.dial()
	requireEcho(t, c1, "over RDMA")
	c2, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	requireEcho(t, c2, "over TCP")
	require.Equal(t, 2, gnetrdma.CountConnections(s.engine))
	require.Equal(t, 1, s.engine.CountConnections())
	require.EqualValues(t, 1, gnetrdma.Reactor(s.engine).Stats().Opened)
	require.NoError(t, c2.Close())
	s.stop()
	require.Equal(t, -1, gnetrdma.CountConnections(s.engine))
	require.Nil(t, gnetrdma.Reactor(s.engine))
	require.ErrorIs(t, s.engine.Validate(), gneterrors.ErrEngineInShutdown)
	_, err = c1.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err, "the connection was reset instead of closed")
}

// TestKernelAddresses checks that Run without an address of RDMA is gnet.Run.
func TestKernelAddresses(t *testing.T) {
	stop := &hooks{boot: func(gnet.Engine) gnet.Action { return gnet.Shutdown }}
	require.NoError(t, gnetrdma.Run(stop, "tcp://127.0.0.1:0"))
	require.NoError(t, gnetrdma.Run(stop, "rdma://127.0.0.1:0"))
}

// TestBadAddresses checks the errors of addresses.
func TestBadAddresses(t *testing.T) {
	for addr, want := range map[string]error{
		"rdma://":                   gneterrors.ErrInvalidNetworkAddress,
		"rdma://127.0.0.1:7471/x":   gneterrors.ErrInvalidNetworkAddress,
		"rdma":                      gneterrors.ErrInvalidNetworkAddress,
		"rdma5://:7471":             gneterrors.ErrUnsupportedProtocol,
		"rdma://127.0.0.1":          nil,
		"rdma://host.invalid:7471":  nil,
		"rdma4://[::1]:7471":        nil,
		"rdma://127.0.0.1:7471\x00": nil,
	} {
		err := gnetrdma.Run(&hooks{}, addr)
		require.Error(t, err, addr)
		if want != nil {
			require.ErrorIs(t, err, want, addr)
		}
	}
	require.EqualError(t, gnetrdma.Run(&hooks{}, "rdma5://:7471"), `gnetrdma: the network "rdma5" is none of rdma, rdma4 and rdma6: `+gneterrors.ErrUnsupportedProtocol.Error())
	require.EqualError(t, gnetrdma.Run(&hooks{}, "rdma://"), `gnetrdma: gnet: invalid network address: "rdma://", and not one such as "rdma://192.0.2.1:7471"`)
}

// TestBadConfig checks the errors of options.
func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]gnetrdma.Config{
		"MaxOutbound": {MaxOutbound: -1},
		"MaxInbound":  {MaxInbound: -1},
		"MaxInFlight": {Reactor: reactor.Config{MaxInFlight: -1}},
	} {
		var param *verbs.ParamError
		require.ErrorAs(t, cfg.Run(&hooks{}, "rdma://127.0.0.1:0"), &param, name)
		require.Contains(t, param.Field, name)
		require.ErrorContains(t, cfg.Run(&hooks{}, "rdma://127.0.0.1:0"), name+" -1: the minimum is 0")
	}
	require.ErrorIs(t, gnetrdma.Run(&hooks{}, "rdma://127.0.0.1:0", gnet.WithLockOSThread(true), gnet.WithNumEventLoop(10001)),
		gneterrors.ErrTooManyEventLoopThreads)
}

// TestAddressInUse checks that Run returns the error of listening, and starts nothing.
func TestAddressInUse(t *testing.T) {
	s := run(t, &hooks{}, gnetrdma.Config{}, nil)
	err := gnetrdma.Run(&hooks{boot: func(gnet.Engine) gnet.Action { panic("OnBoot was called") }}, "rdma://"+s.addr)
	require.ErrorIs(t, err, cm.ErrAddrInUse)
}

// A logger keeps the lines that gnet and this package log.
type logger struct {
	logging.Logger
	mu    sync.Mutex
	lines []string
}

func (l *logger) Infof(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// TestStartLog checks that the log names the addresses of RDMA and the number of loops.
func TestStartLog(t *testing.T) {
	old, flusher := logging.GetDefaultLogger(), logging.GetDefaultFlusher()
	t.Cleanup(func() { logging.SetDefaultLoggerAndFlusher(old, flusher) })
	l := &logger{Logger: old}
	s := run(t, &hooks{}, gnetrdma.Config{}, nil, gnet.WithNumEventLoop(2), gnet.WithLogger(l))
	s.stop()
	require.Contains(t, l.lines, "Launching gnetrdma with 2 event-loops, listening on: rdma://"+s.addr+
		"; the loop of gnet and its UDP port only keep it running")
}

// TestLoadBalancing checks that connections get the loops in turn, and that a full loop refuses
// no client while another one has room.
func TestLoadBalancing(t *testing.T) {
	var mu sync.Mutex
	var loops []gnet.EventLoop
	closed := make(chan struct{}, 3)
	h := &hooks{traffic: echo, open: func(c gnet.Conn) ([]byte, gnet.Action) {
		mu.Lock()
		defer mu.Unlock()
		loops = append(loops, c.EventLoop())
		return nil, gnet.None
	}, close: func(gnet.Conn, error) gnet.Action {
		closed <- struct{}{}
		return gnet.None
	}}
	cfg := gnetrdma.Config{Reactor: reactor.Config{MaxConns: 1}}
	s := run(t, h, cfg, nil, gnet.WithNumEventLoop(2), gnet.WithLoadBalancing(gnet.RoundRobin))
	requireEcho(t, s.dial(), "first")
	second := s.dial()
	requireEcho(t, second, "second")
	require.NoError(t, second.Close())
	<-closed
	// OnClose is called before the connection has left its loop.
	for e := gnetrdma.Reactor(s.engine); e.Loop(0).Conns()+e.Loop(1).Conns() > 1; {
		runtime.Gosched()
	}
	requireEcho(t, s.dial(), "it is the turn of the first loop, which is full")
	mu.Lock()
	defer mu.Unlock()
	require.NotEqual(t, loops[0], loops[1])
	require.Equal(t, loops[1], loops[2])
}

// TestPrivateAddrFails checks that the error of Run says for what gnet needs the private
// address.
func TestPrivateAddrFails(t *testing.T) {
	err := gnetrdma.Run(&hooks{}, "rdma://127.0.0.1:0", gnet.WithBindToDevice("no such device"))
	require.ErrorContains(t, err, "gnet needs a listener besides those of RDMA, and fails at udp://127.0.0.1:0: ")
	require.ErrorIs(t, err, syscall.ENODEV)
}

// TestLoopsDoNotStart checks that Run returns if the loops can not be started.
func TestLoopsDoNotStart(t *testing.T) {
	cfg := gnetrdma.Config{Reactor: reactor.Config{CPUs: []int{missingCPU}}}
	require.Error(t, cfg.Run(&hooks{}, "rdma://127.0.0.1:0"))
}

// TestShutdownOrder checks that OnShutdown comes after OnClose of all connections, and
// that a peer that does not read can not keep Run from returning.
func TestShutdownOrder(t *testing.T) {
	var calls []string
	s := run(t, &hooks{
		open: func(c gnet.Conn) ([]byte, gnet.Action) { return make([]byte, 8<<20), gnet.None },
		traffic: func(gnet.Conn) gnet.Action {
			calls = append(calls, "OnTraffic")
			return gnet.Shutdown
		},
		close: func(_ gnet.Conn, err error) gnet.Action {
			assert.NoError(t, err)
			calls = append(calls, "OnClose")
			return gnet.None
		},
		shutdown: func() { calls = append(calls, "OnShutdown") },
	}, gnetrdma.Config{Reactor: reactor.Config{Limits: reactor.Limits{DrainTimeout: time.Millisecond}}, MaxOutbound: 64 << 20}, nil)
	s.dial()
	_, err := s.dial().Write([]byte("stop"))
	require.NoError(t, err)
	s.wait()
	require.Equal(t, []string{"OnTraffic", "OnClose", "OnClose", "OnShutdown"}, calls)
}
