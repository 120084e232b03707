package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An rdmaClient is a transport over package reactor.
type rdmaClient struct {
	reactor.BaseHandler
	*node
	driver *driver
	server netip.AddrPort
	from   netip.AddrPort
	// Local memory of one-sided operations. Nil until the first connection is open.
	memory *reactor.Region
}

func connectRDMA(s *spec) (client, error) {
	cl := &rdmaClient{driver: newDriver(s)}
	cl.driver.transport = cl
	var err1, err2 error
	cl.server, err1 = netip.ParseAddrPort(s.Server)
	cl.from, err2 = fromAddress(s)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	var err error
	if cl.node, err = startNode(s, cl); err != nil {
		return nil, err
	}
	return cl.driver, nil
}

func (cl *rdmaClient) post(f func()) error { return cl.engine.Loop(0).Post(f) }

func (cl *rdmaClient) after(d time.Duration, f func()) { cl.engine.Loop(0).After(d, f) }

func (cl *rdmaClient) dial(s *session) error {
	return cl.engine.Dial(cl.server, &reactor.DialOptions{LocalAddr: cl.from, UserData: s})
}

func (cl *rdmaClient) closeConn(s *session) { s.sender.(*rdmaSender).conn.Close() }

// OnOpen starts the session of the connection.
func (cl *rdmaClient) OnOpen(c *reactor.Conn) {
	s := c.UserData.(*session)
	out, err := cl.newSender(c)
	if err != nil {
		cl.driver.fail(err)
		return
	}
	s.onOpen(out)
}

// OnMessage passes an answer to the session.
func (cl *rdmaClient) OnMessage(c *reactor.Conn, msg reactor.Message) {
	c.UserData.(*session).onAnswer(msg.Data())
}

// OnCompletion tells the session that a one-sided operation has completed. If the
// operation has failed, OnClose follows.
func (cl *rdmaClient) OnCompletion(c *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		c.UserData.(*session).onComplete()
	}
}

// OnWritable lets the session send again.
func (cl *rdmaClient) OnWritable(c *reactor.Conn) { c.UserData.(*session).onWritable() }

// OnClose tells the session that its connection has closed.
func (cl *rdmaClient) OnClose(c *reactor.Conn, err error) { c.UserData.(*session).onClose(err) }

// OnDialError ends the measurement.
func (cl *rdmaClient) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	cl.driver.fail(err)
}

// An rdmaSender sends on a reactor connection.
type rdmaSender struct {
	conn *reactor.Conn
	spec *spec
	// The message, if Send copies it. Nil for larger messages and one-sided operations.
	copyBuffer []byte
	memory     *reactor.Region
	remote     reactor.Remote
}

// newSender creates the sender of a connection. The first call allocates the local
// memory of one-sided operations.
func (cl *rdmaClient) newSender(c *reactor.Conn) (r *rdmaSender, err error) {
	s := cl.driver.spec
	r = &rdmaSender{conn: c, spec: s}
	if s.oneSided() {
		if cl.memory == nil {
			cl.memory, err = c.Loop().Engine().Alloc(s.Size*s.InFlight, verbs.AccessAll)
		}
		r.memory = cl.memory
		return r, errors.Join(err, r.remote.UnmarshalBinary(c.Info().PeerPrivateData))
	}
	if s.Size <= copyLimit {
		r.copyBuffer = make([]byte, s.Size)
	}
	return r, nil
}

func (r *rdmaSender) send(n uint64) error {
	err := r.start(n)
	if errors.Is(err, reactor.ErrWouldBlock) {
		return errBlocked
	}
	return err
}

func (r *rdmaSender) start(n uint64) error {
	switch {
	case r.spec.Workload == workRead:
		return r.conn.Read(r.remote, nil, r.localPart(n))
	case r.spec.Workload == workWrite:
		return r.conn.Write(r.remote, nil, r.localPart(n))
	case r.copyBuffer != nil:
		putNumber(r.copyBuffer, n)
		return r.conn.Send(r.copyBuffer, nil)
	}
	return r.sendLarge(n)
}

// localPart returns the local memory for operation n. Operations in flight use different
// parts of the memory.
func (r *rdmaSender) localPart(n uint64) reactor.Piece {
	at := int(n%uint64(r.spec.InFlight)) * r.spec.Size
	return reactor.Piece{Region: r.memory, Offset: at, Length: r.spec.Size}
}

// sendLarge sends a message from a leased buffer, without a copy.
func (r *rdmaSender) sendLarge(n uint64) error {
	buf, err := r.conn.Lease(0)
	if err != nil {
		return err
	}
	if err := buf.SetLen(r.spec.Size); err != nil {
		return errors.Join(err, buf.Release())
	}
	putNumber(buf.Bytes(), n)
	if err := r.conn.SendBuffer(buf, nil); err != nil {
		if release := buf.Release(); release != nil {
			return fmt.Errorf("%w; %w", err, release)
		}
		return err
	}
	return nil
}
