package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An rdmaClient is the transport of a driver, and hands the callbacks on to its
// sessions.
type rdmaClient struct {
	reactor.BaseHandler
	*node
	driver *driver
	server netip.AddrPort
	from   netip.AddrPort
	memory verbs.MR // of one-sided operations: one piece for each in flight
}

func connectRDMA(s *spec) (client, error) {
	cl := &rdmaClient{driver: newDriver(s)}
	cl.driver.lib = cl
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
	return cl.engine.Dial(cl.server, &reactor.Dial{LocalAddr: cl.from, Context: s})
}

func (cl *rdmaClient) hangUp(s *session) { s.out.(*lane).conn.Close() }

// OnBoot maps the memory for one-sided operations.
func (cl *rdmaClient) OnBoot(l *reactor.Loop) (err error) {
	if s := cl.driver.spec; s.oneSided() {
		cl.memory, err = l.Alloc(s.Size*s.InFlight, verbs.AccessAll)
	}
	return err
}

// OnOpen tells the session.
func (cl *rdmaClient) OnOpen(c *reactor.Conn) {
	s := c.Context().(*session)
	out, err := cl.newLane(c)
	if err != nil {
		cl.driver.fail(err)
		return
	}
	s.opened(out)
}

// OnMessage brings an answer.
func (cl *rdmaClient) OnMessage(c *reactor.Conn, msg reactor.Message) {
	c.Context().(*session).answered(msg.Data())
}

// OnCompletion ends a one-sided operation; a failure ends the connection too.
func (cl *rdmaClient) OnCompletion(c *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		c.Context().(*session).completed()
	}
}

// OnWritable follows a message that found no room.
func (cl *rdmaClient) OnWritable(c *reactor.Conn) { c.Context().(*session).writable() }

// OnClose ends a session.
func (cl *rdmaClient) OnClose(c *reactor.Conn, err error) { c.Context().(*session).closed(err) }

// OnDialError is a failure of the measurement.
func (cl *rdmaClient) OnDialError(_ *reactor.Dial, err error) { cl.driver.fail(err) }

// A lane is the courier of a connection.
type lane struct {
	conn   *reactor.Conn
	spec   *spec
	small  []byte // messages that are sent as a copy
	memory verbs.MR
	remote reactor.Remote
}

func (cl *rdmaClient) newLane(c *reactor.Conn) (l *lane, err error) {
	s := cl.driver.spec
	l = &lane{conn: c, spec: s, memory: cl.memory}
	if s.oneSided() {
		return l, l.remote.UnmarshalBinary(c.PeerPrivateData())
	}
	if s.Size <= copyLimit {
		l.small = make([]byte, s.Size)
	}
	return l, nil
}

func (l *lane) carry(n uint64) error {
	err := l.start(n)
	if errors.Is(err, reactor.ErrWouldBlock) {
		return errBlocked
	}
	return err
}

func (l *lane) start(n uint64) error {
	switch {
	case l.spec.Workload == workRead:
		return l.conn.Read(l.local(n), l.remote, reactor.SendOptions{})
	case l.spec.Workload == workWrite:
		return l.conn.Write(l.local(n), l.remote, reactor.SendOptions{})
	case l.small != nil:
		putNumber(l.small, n)
		return l.conn.Send(l.small)
	}
	return l.sendLarge(n)
}

// local is the memory of operation n, which no other in flight has.
func (l *lane) local(n uint64) verbs.SGE {
	at := n % uint64(l.spec.InFlight) * uint64(l.spec.Size)
	return verbs.SGE{Addr: l.memory.Addr() + at, Length: uint32(l.spec.Size), LKey: l.memory.LKey()}
}

// sendLarge makes the message where it is sent from.
func (l *lane) sendLarge(n uint64) error {
	buf, err := l.conn.Lease()
	if err != nil {
		return err
	}
	if err := buf.SetLen(l.spec.Size); err != nil {
		return errors.Join(err, buf.Release())
	}
	putNumber(buf.Bytes(), n)
	if err := l.conn.SendBuffer(buf); err != nil {
		if release := buf.Release(); release != nil {
			return fmt.Errorf("%w; %w", err, release)
		}
		return err
	}
	return nil
}
