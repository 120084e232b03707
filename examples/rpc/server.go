package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// maxRequests is how many requests of a client the server has at a time: the next ones wait at
// the client. maxWait limits the method wait.
const maxRequests, maxWait = 16, time.Minute

// A server answers requests. Its callbacks answer those that take no time, and give the others
// to the workers.
type server struct {
	reactor.BaseHandler
	limit   int // of clients
	grace   time.Duration
	clients atomic.Int64 // accepted, and not ended
	tasks   chan task
	workers sync.WaitGroup
	ended   chan error // gets why the server ends
}

// A task is a request for a worker.
type task struct {
	*session
	message
}

// A session is a client. The loop of the connection owns the fields after cancel.
type session struct {
	conn     *reactor.Conn
	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	working  int      // number of requests that workers have
	answers  [][]byte // those that wait for room in the send queue
	stopping bool     // OnStop was called
}

// newServer starts the workers. They end when the channel tasks is closed.
func newServer(limit, workers int, grace time.Duration) *server {
	s := &server{limit: limit, grace: grace, tasks: make(chan task, limit*maxRequests), ended: make(chan error, 2)}
	for range workers {
		s.workers.Go(s.work)
	}
	return s
}

// config returns the configuration of the engine. StopTimeout limits the time after OnStop.
func (s *server) config() *reactor.Config {
	return &reactor.Config{MaxMessage: maxMessage, Limits: reactor.Limits{StopTimeout: s.grace}}
}

// run runs the server until ctx ends, and then until requests are answered, at most for grace.
// A client may not confirm its answers, so the connections have a second more.
func (s *server) run(ctx context.Context, addr netip.AddrPort) error {
	defer func() { close(s.tasks); s.workers.Wait() }() // when no callback runs any more
	return withEngine(addr.Addr(), s, s.config(), s.grace+time.Second, func(e *reactor.Engine) error {
		// Most devices can not hold back a client without a receive queue of its own.
		ln, err := e.Listen(addr, &reactor.ListenOptions{OwnRecvQueue: true})
		if err != nil {
			return err
		}
		fmt.Printf("listening on %v\n", ln.Addr())
		context.AfterFunc(ctx, func() { s.ended <- nil })
		return <-s.ended
	})
}

// OnConnectRequest refuses clients above the limit. Reject and Accept fail if the client has
// given up or the server stops.
func (s *server) OnConnectRequest(req *reactor.ConnRequest) {
	switch n := s.clients.Add(1); {
	case n > int64(s.limit):
		_ = req.Reject(fmt.Appendf(nil, "the server has %d clients, its limit", s.limit))
		s.clients.Add(-1)
	case req.Accept(nil) != nil:
		s.clients.Add(-1)
	}
}

func (s *server) OnAcceptError(req *reactor.ConnRequest, err error) {
	s.clients.Add(-1)
	s.BaseHandler.OnAcceptError(req, err)
}

// OnListenError ends the server, because it has no other listener.
func (s *server) OnListenError(_ *reactor.Listener, err error) { s.ended <- err }

func (s *server) OnOpen(c *reactor.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	c.UserData = &session{conn: c, ctx: ctx, cancel: cancel}
}

func (s *server) OnClose(c *reactor.Conn, _ error) {
	c.UserData.(*session).cancel()
	s.clients.Add(-1)
}

func (s *server) OnMessage(c *reactor.Conn, m reactor.Message) {
	v := c.UserData.(*session)
	r, err := decode(m.Data())
	switch {
	case v.full(): // The client has disconnected, and that has ended the pause. It gets no answer.
	case err != nil:
		_ = c.CloseWith(badRequest, err.Error()) // It can fail only if the connection has ended.
	case r.kind == upper:
		v.answer(r.number, bytes.ToUpper(r.body), nil)
	default:
		r.body = bytes.Clone(r.body) // It is in a receive buffer.
		select {
		case s.tasks <- task{v, r}:
			v.working++
			v.settle()
		default: // Requests of clients that have disconnected are in the way.
			v.answer(r.number, nil, errors.New("the server has too many requests"))
		}
	}
}

// OnWritable is called when there is room for answers that wait.
func (s *server) OnWritable(c *reactor.Conn) { c.UserData.(*session).settle() }

// OnStop is called when the engine begins to shut down. The session takes no more requests, and
// ends when those that it has are answered, or after Config.Limits.StopTimeout.
func (s *server) OnStop(c *reactor.Conn) {
	v := c.UserData.(*session)
	v.stopping = true
	v.settle()
}

// full reports whether the session takes no requests for now.
func (v *session) full() bool { return v.stopping || v.working+len(v.answers) >= maxRequests }

// answer sends the result of a request.
func (v *session) answer(number uint32, body []byte, err error) {
	a := message{number, done, body}
	if len(body) > maxMessage-headerSize { // Capital letters can have more bytes.
		err = errors.New("the answer is too long")
	}
	if err != nil {
		a.kind, a.body = failed, []byte(err.Error())
	}
	v.answers = append(v.answers, a.encode())
	v.settle()
}

// settle sends answers, and decides whether the session ends, waits or takes requests.
func (v *session) settle() {
	var err error
	for len(v.answers) > 0 && err == nil {
		if err = v.conn.Send(v.answers[0], nil); err == nil {
			v.answers = v.answers[1:]
		}
	}
	switch {
	case err != nil && !errors.Is(err, reactor.ErrWouldBlock):
		_ = v.conn.Abort(err)
	case v.stopping && v.working+len(v.answers) == 0:
		_ = v.conn.CloseWith(stopping, "the server stops")
	case v.full():
		_ = v.conn.PauseRecv()
	default:
		v.conn.ResumeRecv()
	}
}

// work is a worker. It gives the answers to the loop of the client.
func (s *server) work() {
	for t := range s.tasks {
		body, err := t.perform()
		// PostWait fails if the connection has ended. If it ends later, the function is told.
		_ = t.conn.PostWait(t.ctx, func(ended error) {
			if t.working--; ended == nil {
				t.answer(t.number, body, err)
			}
		})
	}
}

// perform executes a request.
func (t task) perform() ([]byte, error) {
	switch t.kind {
	case sum:
		return fmt.Appendf(nil, "%x", sha256.Sum256(t.body)), nil
	case wait:
		d, err := time.ParseDuration(string(t.body))
		if err != nil || d < 0 || d > maxWait {
			return nil, fmt.Errorf("wait: the body must be a time of 0s to %v", maxWait)
		}
		select {
		case <-time.After(d):
			return fmt.Appendf(nil, "waited %v", d), nil
		case <-t.ctx.Done():
			return nil, t.ctx.Err()
		}
	}
	return nil, fmt.Errorf("there is no method %d", t.kind)
}
