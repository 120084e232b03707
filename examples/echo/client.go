package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/bits"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// connect runs a client until it has printed its report.
func connect(ctx context.Context, opts *options, stdout, stderr io.Writer) (status int, err error) {
	n, err := start(ctx, opts, reactor.BaseHandler{})
	if err != nil {
		return latency.ExitFailed, err
	}
	cl := newClient(opts, n, stderr)
	before := latency.ReadCounters(n.device)
	streamed, err := cl.measure(ctx)
	counters := latency.ReadCounters(n.device).Since(before)
	if err = errors.Join(err, n.shutdown()); err != nil {
		return latency.ExitFailed, err
	}
	r := &latency.Report{Settings: opts.Settings, Counters: counters, Interrupted: ctx.Err() != nil}
	r.Provider, r.Path = n.device.Name(), latency.PathTo(n.addr.Addr(), n.device.Name(), opts.path)
	for _, s := range cl.sessions {
		r.StreamMsgs += s.streamed
		r.Lost += s.lost
		r.Damaged += s.damaged
		r.PrivateData = cmp.Or(r.PrivateData, s.hello)
		if s.err != nil {
			r.Failed++
			r.Cause = cmp.Or(r.Cause, s.err)
		}
	}
	r.Complete(cl.times, streamed)
	return r.Print("echo", opts.json, stdout, stderr)
}

// A client runs the ping-pong and the stream on its sessions.
type client struct {
	*node
	opts     *options
	stderr   io.Writer
	sessions []*session          // loop i owns the sessions i, i+Loops, i+2*Loops and so on
	times    []latency.Histogram // of the round trips of the ping-pong, for each loop
	busy     sync.WaitGroup      // the sessions that have not finished the phase
}

func newClient(opts *options, n *node, stderr io.Writer) *client {
	cl := &client{node: n, opts: opts, stderr: stderr}
	for range opts.Loops {
		cl.times = append(cl.times, latency.New())
	}
	for i := range opts.Connections {
		cl.sessions = append(cl.sessions, &session{
			client:  cl,
			ready:   true,
			share:   (opts.Count + i) / opts.Connections, // the same for all, or one message more
			message: make([]byte, opts.Size),
			times:   cl.times[i%opts.Loops],
		})
	}
	return cl
}

// measure runs the phases and returns the duration of the stream.
func (cl *client) measure(ctx context.Context) (streamed time.Duration, err error) {
	if err := cl.dial(ctx); err != nil || ctx.Err() != nil {
		return 0, err
	}
	err = cl.run(ctx, "ping-pong", cl.opts.Count, func(s *session) { s.begin(true, 1, s.share) })
	if err != nil || ctx.Err() != nil || cl.opts.duration == 0 {
		return 0, err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, cl.opts.duration)
	defer cancel()
	err = cl.run(ctx, "streaming", -1, func(s *session) { s.begin(false, cl.opts.InFlight, math.MaxInt) })
	return time.Since(begin), err
}

// dial opens the connections, 16 at a time: in an emulator on a busy machine, some of 64
// that were dialed at the same time did not open within 30 s.
func (cl *client) dial(ctx context.Context) error {
	for i, s := range cl.sessions {
		s.ready = false
		cl.busy.Add(1)
		err := cl.engine.Dial(cl.addr, &reactor.DialOptions{
			PrivateData: []byte(cl.opts.privateData),
			Loop:        cl.engine.Loop(i % cl.opts.Loops),
			LocalAddr:   netip.AddrPortFrom(cl.opts.from, 0),
			Handler:     s,
		})
		if err != nil {
			return err
		}
		if i%16 == 15 || i == len(cl.sessions)-1 {
			cl.await(ctx, "connecting", -1)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// run runs one phase to its end. The total is the number of messages, or -1.
func (cl *client) run(ctx context.Context, name string, total int, begin func(*session)) error {
	cl.busy.Add(len(cl.sessions))
	err := cl.onLoops(begin)
	if err == nil {
		cl.await(ctx, name, total)
	}
	return err
}

// await waits until no session is busy. If ctx ends, it tells them to finish early.
func (cl *client) await(ctx context.Context, name string, total int) {
	defer latency.ShowProgress(cl.stderr, name, total, func() uint64 { return cl.engine.Stats().Messages })()
	defer context.AfterFunc(ctx, func() { cl.onLoops((*session).finish) })()
	cl.busy.Wait()
}

// onLoops calls f for every session, on the loop that owns it. It does not wait.
func (cl *client) onLoops(f func(*session)) (err error) {
	for first := range cl.opts.Loops {
		err = errors.Join(err, cl.engine.Loop(first).Post(func() {
			for i := first; i < len(cl.sessions); i += cl.opts.Loops {
				f(cl.sessions[i])
			}
		}))
	}
	return err
}

// A session sends the messages of one connection. The loop of the connection owns it.
type session struct {
	reactor.BaseHandler
	client                  *client
	conn                    *reactor.Conn // nil if it is not open
	share                   int           // number of messages in the ping-pong
	ready                   bool          // the session has finished its phase, and perhaps others have not
	timed                   bool          // the phase is the ping-pong
	window                  int           // largest number of messages in flight
	left                    int           // number of messages that remain to be sent in this phase
	sent, echoed            int           // numbers of messages in all phases
	start                   time.Time     // of the current round trip
	message                 []byte        // room for one message
	times                   latency.Histogram
	streamed, lost, damaged int    // numbers of messages
	hello                   string // private data from the server
	err                     error  // why the connection has failed
}

// OnOpen checks the private data, which the server returns, perhaps with zeros (rdma_accept(3)).
func (s *session) OnOpen(c *reactor.Conn) {
	s.conn, s.hello = c, strings.TrimRight(string(c.Info().PeerPrivateData), "\x00")
	if s.hello != s.client.opts.privateData {
		s.damaged++
	}
	s.finish()
}

// begin starts a phase with the given number of messages.
func (s *session) begin(timed bool, window, messages int) {
	s.ready, s.timed, s.window = false, timed, window
	if s.conn != nil {
		s.left = messages
		// The connection fails if echoes are outstanding and none arrives for this time.
		s.conn.SetIdleTimeout(10 * time.Second)
	}
	s.sendMore()
}

// finish ends the phase when all outstanding echoes have arrived.
func (s *session) finish() {
	s.left = 0
	s.sendMore()
}

// sendMore sends messages until the window is full. At the end of the phase it tells the
// client, and the session waits for the next phase.
func (s *session) sendMore() {
	for s.left > 0 && s.sent-s.echoed < s.window {
		fill(s.message, uint64(s.sent))
		if s.timed {
			s.start = time.Now()
		}
		switch err := s.conn.Send(s.message, nil); {
		case errors.Is(err, reactor.ErrWouldBlock):
			return // OnWritable follows.
		case err != nil:
			s.conn.Abort(err) // OnClose follows.
			return
		}
		s.sent++
		s.left--
	}
	if s.ready || s.left > 0 || s.echoed < s.sent {
		return
	}
	s.ready = true
	if s.conn != nil {
		s.conn.SetIdleTimeout(0)
	}
	s.client.busy.Done()
}

// OnWritable sends again after the send queue was full.
func (s *session) OnWritable(*reactor.Conn) { s.sendMore() }

// OnMessage compares an echo with the oldest outstanding message.
func (s *session) OnMessage(_ *reactor.Conn, msg reactor.Message) { s.check(msg.Data()) }

func (s *session) check(echo []byte) {
	switch {
	case s.echoed == s.sent: // no message is outstanding
		s.damaged++
		return
	case s.timed:
		s.times.Record(time.Since(s.start))
	default:
		s.streamed++
	}
	fill(s.message, uint64(s.echoed))
	if !bytes.Equal(echo, s.message) {
		s.damaged++
	}
	s.echoed++
	s.sendMore()
}

// OnClose ends the session. Any error except ErrShutdown counts as a failure.
func (s *session) OnClose(_ *reactor.Conn, err error) {
	if !errors.Is(err, reactor.ErrShutdown) {
		s.err = err
	}
	s.lost += s.sent - s.echoed
	s.conn, s.echoed = nil, s.sent
	s.finish()
}

// OnDialError ends the session of a connection that could not be opened.
func (s *session) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	s.OnClose(nil, err)
}

// fill writes the message with the given number to msg. Messages with other numbers hardly ever
// contain the same bytes: the factor is odd, so their first words are different.
func fill(msg []byte, number uint64) {
	const factor = 0x9e3779b97f4a7c15
	word := (number + 1) * factor
	for ; len(msg) >= 8; msg = msg[8:] {
		binary.LittleEndian.PutUint64(msg, word)
		word = bits.RotateLeft64(word, 29) * factor
	}
	for i := range msg {
		msg[i] = byte(word >> (8 * i))
	}
}
