package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// copyLimit is up to how many bytes a message is sent as a copy; it is what the
// reactor puts into the work request. Longer ones are sent from where they are.
const copyLimit = 128

// An echoServer returns the last of every so many messages, cut short, and lends
// memory to one-sided operations.
type echoServer struct {
	reactor.BaseHandler
	spec *spec
	*node
	addr   string
	memory verbs.MR // nil for workloads with messages
}

func serveRDMA(s *spec) (server, error) {
	e := &echoServer{spec: s}
	var err error
	if e.node, err = startNode(s, e); err != nil {
		return nil, err
	}
	at, err := listenAddress(s)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	listener, err := e.engine.Listen(at)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.addr = listener.Addr().String()
	return e, nil
}

// Addr is where the server listens.
func (e *echoServer) Addr() string { return e.addr }

// OnBoot maps the memory for one-sided operations.
func (e *echoServer) OnBoot(l *reactor.Loop) (err error) {
	if e.spec.oneSided() {
		e.memory, err = l.Alloc(e.spec.Size, verbs.AccessAll)
	}
	return err
}

// OnConnectRequest lets everybody in, and says where the memory is.
func (e *echoServer) OnConnectRequest(req *reactor.ConnRequest) {
	p := &reactor.AcceptParams{Context: &customer{}}
	if e.memory != nil {
		p.PrivateData, _ = reactor.RemoteOf(e.memory).AppendBinary(nil)
	}
	if err := req.Accept(p); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// A customer is a connection of the server.
type customer struct {
	seen  int               // messages since the last answer
	queue []*reactor.Buffer // answers that found no room, in order
}

// OnMessage answers, if it is the last of a group.
func (e *echoServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	who := c.Context().(*customer)
	if who.seen++; who.seen < e.spec.group() {
		return
	}
	who.seen = 0
	answer := msg.Data()[:min(e.spec.answer(), len(msg.Data()))]
	if len(answer) <= copyLimit && len(who.queue) == 0 && !errors.Is(c.Send(answer), reactor.ErrWouldBlock) {
		return // sent; or the connection is failing, and OnClose will say why
	}
	buf := msg.Keep()
	if buf.SetLen(len(answer)) != nil || len(who.queue) > 0 || c.SendBuffer(buf) != nil {
		who.queue = append(who.queue, buf)
	}
}

// OnWritable sends what had to wait.
func (e *echoServer) OnWritable(c *reactor.Conn) {
	who := c.Context().(*customer)
	for len(who.queue) > 0 && c.SendBuffer(who.queue[0]) == nil {
		who.queue = who.queue[1:]
	}
}

// OnClose gives back what can not be sent any more.
func (e *echoServer) OnClose(c *reactor.Conn, _ error) {
	for _, buf := range c.Context().(*customer).queue {
		buf.Release()
	}
}
