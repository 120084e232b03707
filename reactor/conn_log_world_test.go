//go:build linux

package reactor_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
)

// A journal is a slog.Handler that keeps the records at debug level.
type journal struct{ entries []entry }

// An entry is a record: its message without the name of the package, and its attributes.
type entry struct {
	message string
	attrs   map[string]any
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	if r.Level != slog.LevelDebug {
		return nil
	}
	e := entry{r.Message[len("reactor: "):], make(map[string]any)}
	r.Attrs(func(a slog.Attr) bool {
		if !a.Equal(slog.Attr{}) { // Handlers ignore an empty attribute.
			e.attrs[a.Key] = a.Value.Any()
		}
		return true
	})
	j.entries = append(j.entries, e)
	return nil
}

func (j *journal) WithAttrs([]slog.Attr) slog.Handler { return j }

func (j *journal) WithGroup(string) slog.Handler { return j }

func (j *journal) config() *reactor.Config { return quiet(&reactor.Config{Logger: slog.New(j)}) }

// reasons returns the attributes with the given name of the records with the given message, and
// empties the journal.
func (j *journal) reasons(message, attr string) (all []any) {
	for _, e := range j.entries {
		if e.message == message {
			all = append(all, e.attrs[attr])
		}
	}
	j.entries = nil
	return all
}

// with returns a map with the content of several.
func with(maps ...map[string]any) map[string]any {
	all := make(map[string]any)
	for _, m := range maps {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// opened returns the attributes of the records of an open connection, and those that the record
// of OnOpen has in addition.
func opened(info reactor.ConnInfo) (common, negotiated map[string]any) {
	common = map[string]any{
		"loop": "loop 0", "local": info.LocalAddr.String(), "remote": info.RemoteAddr.String(), "qpn": uint64(info.QPNum),
	}
	negotiated = map[string]any{
		"dialed": info.DialOptions != nil, "device": info.Device.Name(),
		"max_in_flight": int64(7), "max_message": int64(4096),
		"responder_resources": int64(info.ResponderResources), "initiator_depth": int64(3),
	}
	if who := info.Credentials; who != nil {
		negotiated["pid"], negotiated["uid"] = int64(who.PID), uint64(who.UID)
	}
	return common, negotiated
}

// TestJournalOfAConnection checks the records of a connection's whole life on both sides, and
// that they have no bytes of messages and no private data.
func TestJournalOfAConnection(t *testing.T) {
	for name, hosts := range map[string][2]string{"local": {"host", "host"}, "wire": {"client", "server"}} {
		t.Run(name, func(t *testing.T) {
			reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) { runJournal(t, w, hosts[0], hosts[1]) })
		})
	}
}

func runJournal(t *testing.T, w *reactortest.World, clientHost, serverHost string) {
	const secret = "secret"
	var client, server journal
	var dialed, accepted *reactor.Conn
	received, closed := 0, 0
	config := func(j *journal) *reactor.Config {
		cfg := j.config()
		cfg.MaxInFlight, cfg.Transport.InitiatorDepth = 7, 3
		return cfg
	}
	h := w.Host(serverHost)
	acceptor := h.Process("server").Start(&hooks{
		request: func(req *reactor.ConnRequest) {
			require.NoError(t, req.Accept(&reactor.AcceptOptions{PrivateData: []byte(secret)}))
		},
		open:    func(c *reactor.Conn) { accepted = c },
		message: func(*reactor.Conn, reactor.Message) { received++ },
		close:   func(*reactor.Conn, error) { closed++ },
	}, config(&server))
	ln, err := acceptor.Listen(h.AddrPort(1), nil)
	require.NoError(t, err)
	if clientHost != serverHost {
		h = w.Host(clientHost)
	}
	dialer := h.Process("client").Start(&hooks{
		open:  func(c *reactor.Conn) { dialed = c },
		close: func(*reactor.Conn, error) { closed++ },
	}, config(&client))
	require.NoError(t, dialer.Dial(ln.Addr(), &reactor.DialOptions{PrivateData: []byte(secret)}))
	w.Until(testTimeout, func() bool { return dialed != nil && accepted != nil })
	w.On(dialed.Loop(), func() { require.NoError(t, dialed.Send([]byte(secret), nil)) })
	w.Until(testTimeout, func() bool { return received == 1 })
	w.On(accepted.Loop(), func() {
		for range 2 {
			require.NoError(t, accepted.PauseRecv())
		}
		for range 2 {
			accepted.ResumeRecv()
		}
	})
	w.For(time.Second)
	w.On(dialed.Loop(), func() { require.NoError(t, dialed.CloseWith(3, secret)) })
	w.Until(testTimeout, func() bool { return closed == 2 })

	common, negotiated := opened(dialed.Info())
	require.Equal(t, []entry{
		{"dial", map[string]any{"loop": "loop 0", "remote": common["remote"]}},
		{"connection open", with(common, negotiated)},
		{"connection closing", common},
		{"connection closed", with(common, client.counts(t, 0, 0), map[string]any{"accepted": uint64(1), "confirmed": uint64(1)})},
	}, client.entries)

	common, negotiated = opened(accepted.Info())
	ofRequest := map[string]any{"loop": "loop 0", "local": common["local"], "remote": common["remote"]}
	paused := with(common, map[string]any{"held": int64(0)})
	cause := map[string]any{"error": "closed by the peer (closed, code 3)"}
	require.Equal(t, []entry{
		{"connection request", with(ofRequest, map[string]any{"device": negotiated["device"]})},
		{"request accepted", ofRequest},
		{"connection open", with(common, negotiated)},
		{"receiving paused", paused},
		{"receiving resumed", paused},
		{"connection closing", with(common, cause)},
		{"connection closed", with(common, cause, server.counts(t, 1, len(secret)), map[string]any{"accepted": uint64(0), "confirmed": uint64(0)})},
	}, server.entries)
	require.NotContains(t, fmt.Sprint(client, server), secret)
}

// counts returns the attributes of the last record about what was received and lost, which it
// checks, and the time for which the connection was open.
func (j *journal) counts(t *testing.T, messages, bytes int) map[string]any {
	openFor := j.entries[len(j.entries)-1].attrs["open_for"]
	require.Greater(t, openFor, time.Second)
	return map[string]any{
		"open_for": openFor, "messages": uint64(messages), "message_bytes": uint64(bytes), "failed": uint64(0), "queue_full": uint64(0),
	}
}

// TestJournalOfFailedDial checks the records of a dial that nobody answers.
func TestJournalOfFailedDial(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var client journal
		to := w.Host("server").AddrPort(1)
		dialer := w.Host("client").Process("client").Start(&hooks{}, client.config())
		require.NoError(t, dialer.Dial(to, &reactor.DialOptions{Timeout: time.Second}))
		w.Until(testTimeout, func() bool { return dialer.Stats().DialErrors == 1 })
		require.Len(t, client.entries, 2)
		dial := map[string]any{"loop": "loop 0", "remote": to.String()}
		require.Equal(t, entry{"dial", dial}, client.entries[0])
		require.Equal(t, "connection failed to open", client.entries[1].message)
		require.Equal(t, true, client.entries[1].attrs["dialed"])
		require.Equal(t, to.String(), client.entries[1].attrs["remote"])
		require.Contains(t, client.entries[1].attrs["error"], "timed out")
	})
}

// TestJournalOfRejectedRequests checks the reason in the record of each request that is not
// accepted, and that the text of Reject is not in the records of either side.
func TestJournalOfRejectedRequests(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var client, server journal
		h, a := w.Host("server"), w.Host("client")
		answer := func(req *reactor.ConnRequest) { require.NoError(t, req.Reject([]byte("secret"))) }
		cfg := server.config()
		cfg.MaxConns, cfg.Limits.DecisionTimeout = 1, time.Minute
		e := h.Process("server").Start(&hooks{request: func(req *reactor.ConnRequest) { answer(req) }}, cfg)
		_, err := e.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		dialer := a.Process("client").Start(&hooks{}, client.config())
		dial := func(timeout time.Duration) {
			before := dialer.Stats().DialErrors
			require.NoError(t, dialer.Dial(h.AddrPort(1), &reactor.DialOptions{Timeout: timeout}))
			w.Until(10*time.Minute, func() bool { return dialer.Stats().DialErrors == before+1 })
			w.For(time.Second)
		}
		reject := func(reason string) {
			t.Helper()
			require.Equal(t, []any{reason}, server.reasons("request rejected", "reason"))
		}
		dial(0)
		require.NotContains(t, fmt.Sprint(client, server), "secret")
		require.Equal(t, []any{"connection refused by the application"}, client.reasons("connection failed to open", "error"))
		reject("by the application")

		answer = func(*reactor.ConnRequest) {}
		dial(cm.MaxTimeout)
		reject("not answered in time")

		answer = func(req *reactor.ConnRequest) { require.NoError(t, req.Accept(nil)) }
		require.NoError(t, dialer.Dial(h.AddrPort(1), nil))
		w.Until(testTimeout, func() bool { return e.Stats().Opened == 1 })
		dial(0)
		reject("no room")
	})
}

// TestJournalOfReplacedRequest checks the record of a request that a newer request has replaced,
// because the server allows one half-open request only.
func TestJournalOfReplacedRequest(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var server journal
		h, requests := w.Host("server"), 0
		e, err := reactor.New(h.Process("server").Open(&soft.Config{MaxHalfOpen: 1}),
			&hooks{request: func(*reactor.ConnRequest) { requests++ }}, server.config())
		require.NoError(t, err)
		t.Cleanup(func() { shutdown(t, e) })
		require.NoError(t, e.Start())
		_, err = e.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		for n, name := range []string{"first", "second"} {
			require.NoError(t, w.Host(name).Process("client").Start(&hooks{}, quiet(nil)).Dial(h.AddrPort(1), nil))
			w.Until(time.Second, func() bool { return requests == n+1 })
		}
		w.Settle()
		require.Equal(t, []any{"peer gone"}, server.reasons("request rejected", "reason"))
	})
}

// TestJournalOfShutdown checks the records of a request that waits and of a connection when the
// engine shuts down.
func TestJournalOfShutdown(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var server journal
		h, requests := w.Host("host"), 0
		e := h.Process("server").Start(&hooks{request: func(req *reactor.ConnRequest) {
			if requests++; requests == 1 {
				require.NoError(t, req.Accept(nil))
			}
		}}, server.config())
		_, err := e.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		dialer := h.Process("client").Start(&hooks{}, quiet(nil))
		for range 2 {
			require.NoError(t, dialer.Dial(h.AddrPort(1), nil))
		}
		w.Until(testTimeout, func() bool { return requests == 2 && e.Stats().Opened == 1 })
		server.entries = nil
		shutdown(t, e)
		var messages []string
		for _, entry := range server.entries {
			messages = append(messages, entry.message)
		}
		require.Equal(t, []string{"request rejected", "connection closing", "connection closed"}, messages)
		require.Equal(t, []any{"the server is shutting down"}, server.reasons("request rejected", "reason"))
	})
}

// keepingOpen is a Handler that does not close its connections when the engine stops.
type keepingOpen struct{ reactor.BaseHandler }

func (keepingOpen) OnStop(*reactor.Conn) {}

// TestJournalOfAbortedShutdown checks the records of a connection that is still open when a
// shutdown is cut short.
func TestJournalOfAbortedShutdown(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var server journal
		h := w.Host("host")
		e := h.Process("server").Start(keepingOpen{}, server.config())
		_, err := e.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		w.Dial(h.Process("client").Start(&hooks{}, quiet(nil)), h.AddrPort(1), nil)
		w.Until(testTimeout, func() bool { return e.Stats().Opened == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, e.Shutdown(ctx), context.DeadlineExceeded)
		entries := server.entries
		require.Equal(t, []any{"shutting down"}, server.reasons("connection closing", "error"))
		server.entries = entries
		require.Equal(t, []any{"shutting down"}, server.reasons("connection closed", "error"))
	})
}

// TestJournalOfAnEndedLoop checks the record of a request that is accepted when its loop has
// ended.
func TestJournalOfAnEndedLoop(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var server journal
		h := w.Host("host")
		process := h.Process("server")
		l := process.NewLoop(&hooks{request: func(req *reactor.ConnRequest) {
			reactor.CloseMailbox(req.Loop())
			require.ErrorIs(t, req.Accept(nil), reactor.ErrShutdown)
		}}, server.config())
		_, err := l.Engine().Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		require.NoError(t, h.Process("client").Start(&hooks{}, quiet(nil)).Dial(h.AddrPort(1), nil))
		for len(server.entries) == 0 {
			_, err := l.RunOnce(time.Second)
			require.NoError(t, err)
		}
		require.Equal(t, []any{"the server is shutting down"}, server.reasons("request rejected", "reason"))
	})
}
