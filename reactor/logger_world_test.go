//go:build linux

package reactor_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// A logged is the log of an engine. In a world only one goroutine at a time writes to it.
type logged struct{ bytes.Buffer }

func (l *logged) config(cfg reactor.Config) *reactor.Config {
	cfg.Logger = slog.New(slog.NewTextHandler(l, nil))
	return &cfg
}

// want checks that the log has one record with the given parts, and empties the log.
func (l *logged) want(t *testing.T, parts ...string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(l.String(), "\n"), l.String())
	for _, part := range parts {
		require.Contains(t, l.String(), part)
	}
	l.Reset()
}

// rejecting is a Handler that rejects all requests.
type rejecting struct{ reactor.BaseHandler }

func (rejecting) OnConnectRequest(req *reactor.ConnRequest) { _ = req.Reject([]byte("full")) }

// TestBaseHandlerLogs checks what an engine with a BaseHandler logs.
func TestBaseHandlerLogs(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var client, server logged
		a, b := w.Host("client"), w.Host("server")
		dialer := a.Process("client").Start(reactor.BaseHandler{}, client.config(reactor.Config{}))
		process := b.Process("server")
		acceptor := process.Start(rejecting{}, server.config(reactor.Config{}))
		ln, err := acceptor.Listen(b.AddrPort(1), nil)
		require.NoError(t, err)

		require.NoError(t, dialer.Dial(ln.Addr(), nil))
		w.Until(time.Minute, func() bool { return dialer.Stats().DialErrors == 1 })
		client.want(t, "level=WARN", "a dial has failed", ln.Addr().String(), "full")

		_, err = acceptor.Listen(b.AddrPort(2), &reactor.ListenOptions{Handler: reactor.BaseHandler{}})
		require.NoError(t, err)
		process.SetNoMemory(true)
		require.NoError(t, dialer.Dial(b.AddrPort(2), nil))
		w.Until(time.Minute, func() bool { return dialer.Stats().DialErrors == 2 })
		client.want(t, "a dial has failed", "no resources")
		server.want(t, "level=WARN", "an accepted request has failed", a.Addr().String(), "cannot allocate memory")
		process.SetNoMemory(false)
	})
}

// TestEngineLogs checks what an engine logs that no callback reports.
func TestEngineLogs(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var server logged
		a, b := w.Host("client"), w.Host("server")
		silent := &hooks{request: func(*reactor.ConnRequest) {}}
		e := b.Process("server").Start(silent, server.config(reactor.Config{MaxConns: 1, Limits: reactor.Limits{DecisionTimeout: time.Second}}))
		_, err := e.Listen(b.AddrPort(1), nil)
		require.NoError(t, err)
		_, err = e.Listen(b.AddrPort(2), &reactor.ListenOptions{Handler: reactor.BaseHandler{}})
		require.NoError(t, err)
		dialer := a.Process("client").Start(&hooks{}, nil)
		require.NoError(t, dialer.Dial(b.AddrPort(1), nil))
		w.For(time.Minute)
		server.want(t, "level=WARN", "Config.Limits.DecisionTimeout", a.Addr().String())

		for range 2 {
			require.NoError(t, dialer.Dial(b.AddrPort(2), nil))
			w.For(time.Second)
		}
		server.want(t, "level=WARN", "Config.MaxConns", a.Addr().String())
	})
}

// TestStrangerCanNotFillTheLog checks that peers whose connections fail all the time, for a
// day, cause few records.
func TestStrangerCanNotFillTheLog(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var server logged
		h := w.Host("host")
		e := h.Process("server").Start(reactor.BaseHandler{}, server.config(*quiet(&reactor.Config{MaxConns: 1})))
		_, err := e.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		dialer := h.Process("stranger").Start(&hooks{}, quiet(nil))
		const hours, perHour = 24, 100
		for range hours {
			for range perHour {
				require.NoError(t, dialer.Dial(h.AddrPort(1), nil))
			}
			w.For(time.Hour)
		}
		require.EqualValues(t, hours*perHour-1, e.Stats().NoResources)
		records := strings.Count(server.String(), "\n")
		require.Positive(t, records)
		require.LessOrEqual(t, records, hours*10, "10 at once, and 60 in the hour between the floods")
		require.Less(t, server.Len()/records, 512)
	})
}

// TestShutdownLogsNothing checks that connections that end because of a shutdown are not
// logged as failures.
func TestShutdownLogsNothing(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var log logged
		h := w.Host("host")
		e := h.Process("process").Start(reactor.BaseHandler{}, log.config(reactor.Config{}))
		require.NoError(t, e.Dial(h.AddrPort(1), nil))
		shutdown(t, e)
		require.Empty(t, log.String())
	})
}

// TestRecordedErrorsAreLogged checks that an error which only Engine.Wait reports is logged,
// too, because a server calls Wait at its end.
func TestRecordedErrorsAreLogged(t *testing.T) {
	var log logged
	l, err := reactor.NewLoop(openSoft(t), reactor.BaseHandler{}, log.config(reactor.Config{}))
	require.NoError(t, err)
	failed := errors.New("failed")
	reactor.RecordError(l, nil)
	reactor.RecordError(l, failed)
	log.want(t, "level=ERROR", failed.Error())
	require.ErrorIs(t, l.Close(), failed)
}
