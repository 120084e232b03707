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

// A client opens its sessions, lets each of them send ping-pong and then stream,
// and reports. It hands the callbacks on to the session they are about.
type client struct {
	reactor.BaseHandler
	opts     *options
	engine   *reactor.Engine
	lanes    []*lane // one for each loop
	sessions []*session
	done     chan struct{} // one value from each session in each phase
}

func newClient(opts *options) *client {
	cl := &client{opts: opts, done: make(chan struct{}, opts.conns)}
	for range opts.loops {
		cl.lanes = append(cl.lanes, newLane())
	}
	for i := range opts.conns {
		s := newSession(opts, cl.lanes[i%opts.loops], cl.done)
		s.share = (opts.count + i) / opts.conns // these add up to count
		cl.sessions = append(cl.sessions, s)
	}
	return cl
}

// connect is the client, from beginning to end.
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
	before := count(p)
	streamed, err := cl.measure(ctx, addr)
	counted := count(p).since(before)
	if err = errors.Join(err, shutdown(cl.engine)); err != nil {
		return exitFailed, err
	}
	// The loops have ended, so what was theirs can be read.
	r := newReport(opts, p.Name(), addr.Addr(), cl.lanes, streamed)
	r.Counters = counted
	r.Interrupted = ctx.Err() != nil
	return r.print(opts.json, stdout, stderr)
}

// measure goes through the phases and returns how long it streamed.
func (cl *client) measure(ctx context.Context, addr netip.AddrPort) (streamed time.Duration, err error) {
	if err := cl.dial(ctx, addr); err != nil {
		return 0, err
	}
	err = cl.phase(ctx, "ping-pong", cl.opts.count, func(_ *reactor.Loop, l *lane) {
		for _, s := range l.sessions {
			s.begin(pingPong, 1, s.share)
		}
	})
	if err != nil || ctx.Err() != nil || cl.opts.duration == 0 {
		return 0, err
	}
	begin := time.Now()
	err = cl.phase(ctx, "streaming", -1, func(loop *reactor.Loop, l *lane) {
		for _, s := range l.sessions {
			s.begin(stream, cl.opts.inflight, math.MaxInt)
		}
		loop.After(cl.opts.duration, l.finish)
	})
	return time.Since(begin), err
}

// dialing is how many connections open at a time. A connection has a limited time to
// open, and a server's backlog holds 128 requests on many systems
// (net.core.somaxconn).
const dialing = 64

// dial opens the sessions, and waits until each session has opened or failed.
func (cl *client) dial(ctx context.Context, addr netip.AddrPort) error {
	for begin := 0; begin < len(cl.sessions) && ctx.Err() == nil; begin += dialing {
		end := min(begin+dialing, len(cl.sessions))
		for i := begin; i < end; i++ {
			err := cl.engine.Dial(addr, &reactor.Dial{
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

// phase runs start on every loop and waits for the sessions.
func (cl *client) phase(ctx context.Context, name string, total int, start func(*reactor.Loop, *lane)) error {
	if ctx.Err() != nil {
		return nil
	}
	for i, l := range cl.lanes {
		loop := cl.engine.Loop(i)
		if err := loop.Post(func() { start(loop, l) }); err != nil {
			return err
		}
	}
	return cl.await(ctx, name, total, len(cl.sessions))
}

// await waits until waiting sessions have finished the phase. When ctx ends, it asks
// the sessions to finish soon.
func (cl *client) await(ctx context.Context, name string, total, waiting int) error {
	bar := newProgress(name, total, cl.lanes)
	defer bar.finish()
	stop := ctx.Done()
	for waiting > 0 {
		select {
		case <-cl.done:
			waiting--
		case <-bar.ticks:
			bar.show(cl.lanes)
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
	for i, l := range cl.lanes {
		err = errors.Join(err, cl.engine.Loop(i).Post(l.finish))
	}
	return err
}

// OnTick publishes how far a loop has come.
func (cl *client) OnTick(loop *reactor.Loop) time.Duration {
	cl.lanes[loop.Index()].publish()
	return progressInterval
}

// OnOpen comes once for each session that the server lets in.
func (cl *client) OnOpen(c *reactor.Conn) { c.Context().(*session).open(c) }

// OnMessage brings one echo.
func (cl *client) OnMessage(c *reactor.Conn, msg reactor.Message) {
	c.Context().(*session).echo(msg.Data())
}

// OnWritable follows a send that found the queue full.
func (cl *client) OnWritable(c *reactor.Conn) { c.Context().(*session).pump() }

// OnClose ends a session: in order, or in the middle of a phase.
func (cl *client) OnClose(c *reactor.Conn, err error) { c.Context().(*session).close(err) }

// OnDialError says why a session did not open.
func (cl *client) OnDialError(d *reactor.Dial, err error) { d.Context.(*session).close(err) }
