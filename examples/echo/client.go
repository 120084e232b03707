package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A client runs the ping-pong and the stream, and prints a report. It passes each
// callback to a session.
type client struct {
	reactor.BaseHandler
	opts   *options
	engine *reactor.Engine
	// Results of each loop, by index.
	results  []*loopResult
	sessions []*session
	// channel that receives a value from each session at the end of each phase
	done chan struct{}
}

func newClient(opts *options) *client {
	cl := &client{opts: opts, done: make(chan struct{}, opts.conns)}
	for range opts.loops {
		cl.results = append(cl.results, newLoopResult())
	}
	for i := range opts.conns {
		s := newSession(opts, cl.results[i%opts.loops], cl.done)
		// The messages are divided equally among the sessions. A session may have one message
		// more than another.
		s.share = (opts.count + i) / opts.conns
		cl.sessions = append(cl.sessions, s)
	}
	return cl
}

// connect runs a client until it has printed its report.
func connect(ctx context.Context, opts *options, stdout, stderr io.Writer) (status int, err error) {
	addr, err := resolve("connect", opts.connect, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		return exitFailed, err
	}
	p, err := provider.Open(opts.provider, opts.providerConfig(addr))
	if err != nil {
		return exitFailed, err
	}
	defer p.Close()

	cl := newClient(opts)
	cpus, _ := opts.placement()
	if cl.engine, err = reactor.New(p, cl, opts.engineConfig(cpus)); err != nil {
		return exitFailed, err
	}
	if err := start(cl.engine, cpus); err != nil {
		return exitFailed, err
	}
	before := readCounters(p)
	streamed, err := cl.measure(ctx, addr)
	counted := readCounters(p).since(before)
	if err = errors.Join(err, shutdown(cl.engine)); err != nil {
		return exitFailed, err
	}
	// The loops have ended, so this goroutine may read their results.
	r := newReport(opts, p.Name(), addr.Addr(), cl.results, streamed)
	r.Counters = counted
	r.Interrupted = ctx.Err() != nil
	return r.print(opts.json, stdout, stderr)
}

// measure runs the phases and returns the duration of the stream.
func (cl *client) measure(ctx context.Context, addr netip.AddrPort) (streamed time.Duration, err error) {
	if err := cl.dial(ctx, addr); err != nil {
		return 0, err
	}
	err = cl.phase(ctx, "ping-pong", cl.opts.count, func(_ *reactor.Loop, r *loopResult) {
		for _, s := range r.sessions {
			s.begin(pingPong, 1, s.share)
		}
	})
	if err != nil || ctx.Err() != nil || cl.opts.duration == 0 {
		return 0, err
	}
	begin := time.Now()
	err = cl.phase(ctx, "streaming", -1, func(loop *reactor.Loop, r *loopResult) {
		for _, s := range r.sessions {
			s.begin(stream, cl.opts.inflight, math.MaxInt)
		}
		loop.After(cl.opts.duration, r.finish)
	})
	return time.Since(begin), err
}

// maxDialing is the largest number of connections that are dialed at the same time. In an
// emulator on a busy machine, some of 64 connections did not open within 30 s.
const maxDialing = 16

// dial opens the sessions and waits until each has opened or failed.
func (cl *client) dial(ctx context.Context, addr netip.AddrPort) error {
	for begin := 0; begin < len(cl.sessions) && ctx.Err() == nil; begin += maxDialing {
		end := min(begin+maxDialing, len(cl.sessions))
		for i := begin; i < end; i++ {
			err := cl.engine.Dial(addr, &reactor.DialOptions{
				PrivateData: []byte(cl.opts.privateData),
				Loop:        cl.engine.Loop(i % cl.opts.loops),
				LocalAddr:   netip.AddrPortFrom(cl.opts.from, 0),
				Context:     cl.sessions[i],
			})
			if err != nil {
				return err
			}
		}
		if err := cl.await(ctx, "connecting", -1, end-begin); err != nil {
			return err
		}
	}
	return nil
}

// phase runs one phase to its end. It calls start() on every loop. The parameter total is
// the number of messages, or -1 if it is unknown.
func (cl *client) phase(ctx context.Context, name string, total int, start func(*reactor.Loop, *loopResult)) error {
	if ctx.Err() != nil {
		return nil
	}
	for i, r := range cl.results {
		loop := cl.engine.Loop(i)
		if err := loop.Post(func() { start(loop, r) }); err != nil {
			return err
		}
	}
	return cl.await(ctx, name, total, len(cl.sessions))
}

// await waits until all sessions have finished the phase. If ctx ends, it tells them to
// finish early.
func (cl *client) await(ctx context.Context, name string, total, waiting int) error {
	bar := newProgress(name, total, cl.results)
	defer bar.finish()
	stop := ctx.Done()
	for waiting > 0 {
		select {
		case <-cl.done:
			waiting--
		case <-bar.ticks:
			bar.show(cl.results)
		case <-stop:
			stop = nil
			if err := cl.finish(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (cl *client) finish() (err error) {
	for i, r := range cl.results {
		err = errors.Join(err, cl.engine.Loop(i).Post(r.finish))
	}
	return err
}

// OnTick counts the echoes of a loop for the progress bar.
func (cl *client) OnTick(loop *reactor.Loop) time.Duration {
	cl.results[loop.Index()].publish()
	return progressInterval
}

// OnOpen passes an opened connection to its session.
func (cl *client) OnOpen(c *reactor.Conn) { c.Context().(*session).onOpen(c) }

// OnMessage passes an echo to its session.
func (cl *client) OnMessage(c *reactor.Conn, msg reactor.Message) {
	c.Context().(*session).checkEcho(msg.Data())
}

// OnWritable lets the session send again.
func (cl *client) OnWritable(c *reactor.Conn) { c.Context().(*session).sendMore() }

// OnClose ends the session of a connection that has closed.
func (cl *client) OnClose(c *reactor.Conn, err error) { c.Context().(*session).onClose(err) }

// OnDialError ends the session of a connection that could not be opened.
func (cl *client) OnDialError(d *reactor.DialOptions, err error) { d.Context.(*session).onClose(err) }
