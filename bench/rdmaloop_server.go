package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// copyLimit is the size in bytes of the largest message that Send copies.
const copyLimit = 128

// errNotKept ends a connection when the server has no memory to keep a message.
var errNotKept = errors.New("no memory to keep the message")

// An echoServer answers the last message of each group with the beginning of that
// message. It also provides memory for one-sided operations.
type echoServer struct {
	reactor.BaseHandler
	spec *spec
	*node
	addr    string
	workers workers // for workWorkers
	// Memory for one-sided operations. Nil for workloads with messages.
	memory *reactor.Region
	remote reactor.Remote // address and key of the memory, for the clients
}

func serveRDMA(s *spec) (server, error) {
	e := &echoServer{spec: s, workers: startWorkers(s)}
	var err error
	if e.node, err = startNode(s, e); err != nil {
		return nil, err
	}
	at, err := listenAddress(s)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	listener, err := e.engine.Listen(at, nil)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.addr = listener.Addr().String()
	return e, nil
}

// Addr returns the address of the listener.
func (e *echoServer) Addr() string { return e.addr }

// OnConnectRequest accepts every client. If the workload is one-sided, the reply has the
// address and key of the memory.
func (e *echoServer) OnConnectRequest(req *reactor.ConnRequest) {
	p := &reactor.AcceptOptions{UserData: &serverConn{}}
	if e.spec.oneSided() {
		if err := e.allocMemory(req); err != nil {
			fmt.Fprintln(os.Stderr, errors.Join(err, req.Reject(nil)))
			return
		}
		p.PrivateData, _ = e.remote.AppendBinary(nil)
	}
	if err := req.Accept(p); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// allocMemory allocates the memory for one-sided operations once. There is only one
// loop, so it needs no lock.
func (e *echoServer) allocMemory(req *reactor.ConnRequest) (err error) {
	if e.memory != nil {
		return nil
	}
	if e.memory, err = req.Engine().Alloc(e.spec.Size, verbs.AccessAll); err != nil {
		return err
	}
	e.remote, err = e.memory.Remote(req.Device(), 0, e.spec.Size)
	return err
}

// A serverConn is the server's state of a connection.
type serverConn struct {
	unanswered int // Number of messages since the last answer.
	// Answers that wait for room in the send queue, oldest first.
	queue []*reactor.Buffer
}

// OnMessage answers the message if it is the last of its group.
func (e *echoServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	state := c.UserData.(*serverConn)
	if state.unanswered++; state.unanswered < e.spec.group() {
		return
	}
	state.unanswered = 0
	answer := msg.Data()[:min(e.spec.answer(), len(msg.Data()))]
	if e.workers != nil {
		answer := bytes.Clone(answer)
		e.workers <- func() {
			_ = c.Loop().Post(func() { _ = c.Send(answer, nil) }) // If one fails, the client gets no answer.
		}
		return
	}
	if len(answer) <= copyLimit && len(state.queue) == 0 && !errors.Is(c.Send(answer, nil), reactor.ErrWouldBlock) {
		// If Send has failed, OnClose follows.
		return
	}
	buf := msg.Keep()
	if buf == nil {
		c.Abort(errNotKept)
		return
	}
	if buf.SetLen(len(answer)) != nil || len(state.queue) > 0 || c.SendBuffer(buf, nil) != nil {
		state.queue = append(state.queue, buf)
	}
}

// OnWritable sends the queued answers.
func (e *echoServer) OnWritable(c *reactor.Conn) {
	state := c.UserData.(*serverConn)
	for len(state.queue) > 0 && c.SendBuffer(state.queue[0], nil) == nil {
		state.queue = state.queue[1:]
	}
}

// OnClose releases the queued answers.
func (e *echoServer) OnClose(c *reactor.Conn, _ error) {
	for _, buf := range c.UserData.(*serverConn).queue {
		buf.Release()
	}
}
