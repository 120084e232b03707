package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// ib_send_lat and ib_send_bw with -R, of the perftest package. A first connection
// carries an exchange of messages in steps, each a message of the client that
// the server answers in kind. A second connection to the same port, for the
// data, is opened in between.

// Steps of the exchange. Those without a name only keep both sides together.
const (
	stepVersion = iota
	stepCycle   // size of the buffers, which is that of a page
	stepCacheLine
	stepMTU
	stepConnect // after it, the data connection is opened
	stepConnected
	stepQueuePair
	_
	_
	stepRun // after it, the data flows
	stepEnd // before it, all of it has been delivered
	steps
)

// version claims to be a release whose exchange is the one above: after 5.70,
// the oldest that others talk to, and before 6.28, which has more steps.
const version = "6.00"

// stepMessage is what either side sends in a step.
func stepMessage(step int, data *reactor.Conn) []byte {
	switch step {
	case stepVersion:
		return append([]byte(version), make([]byte, 16-len(version))...)
	case stepCycle:
		return binary.BigEndian.AppendUint32(nil, 4096)
	case stepCacheLine:
		return binary.BigEndian.AppendUint32(nil, 64)
	case stepMTU:
		return []byte("3\x00") // the code of 1024 bytes; the connection has its own
	}
	return endpointMessage(data)
}

// endpointSize is the length of what describes a connection. Releases from 2026
// on send eight bytes more, in front of the GID, and take less.
const endpointSize = 56

// endpointMessage describes the data connection, as far as there is one, big
// endian. The peer only prints it.
func endpointMessage(data *reactor.Conn) []byte {
	b := make([]byte, endpointSize)
	if data != nil {
		gid := data.LocalAddr().Addr().As16()
		binary.BigEndian.PutUint32(b[8:], data.QPNum())
		copy(b[32:], gid[:])
	}
	return b
}

// A perftest is either side of either program.
type perftest struct {
	*side
	traffic
	control, data *reactor.Conn
	step          int // the next one
	closed        int
}

// traffic is what flows on the data connection.
type traffic interface {
	begin(*perftest)   // the client may send
	message(*perftest) // a message came
	more(*perftest)    // there is room to send again
	sent(*perftest)    // the message of which that was asked has arrived
}

// OnOpen tells the connections apart: the first is for control.
func (p *perftest) OnOpen(c *reactor.Conn) {
	if p.control == nil {
		p.control = c
	} else {
		p.data = c
	}
}

// next sends the next step.
func (p *perftest) next() { p.must(p.control.Send(stepMessage(p.step, p.data))) }

// takeStep takes a message of the exchange, and returns which step it is of.
func (p *perftest) takeStep(msg reactor.Message) (step int, ok bool) {
	got, want := len(msg.Data()), len(stepMessage(p.step, p.data))
	if p.step == steps || got < want || got > want && want != endpointSize {
		p.control.Abort(fmt.Errorf("step %d: a message of %d bytes, not %d", p.step, got, want))
		return 0, false
	}
	p.step++
	return p.step - 1, true
}

// takeData takes a message of the traffic.
func (p *perftest) takeData(msg reactor.Message) {
	if len(msg.Data()) != p.opts.size {
		p.data.Abort(fmt.Errorf("a message of %d bytes, not %d", len(msg.Data()), p.opts.size))
		return
	}
	p.message(p)
}

// OnWritable lets the traffic go on.
func (p *perftest) OnWritable(*reactor.Conn) { p.more(p) }

// OnCompletion ends the traffic.
func (p *perftest) OnCompletion(_ *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		p.sent(p)
	}
}

// OnClose ends this side with the second connection. In the last step the peer
// may close its connections in any order, before or after its last message.
func (p *perftest) OnClose(_ *reactor.Conn, err error) {
	if p.step < stepEnd || !errors.Is(err, reactor.ErrPeerClosed) {
		p.must(err)
	}
	if p.closed++; p.closed < 2 {
		return
	}
	err = nil
	if p.step < steps {
		err = fmt.Errorf("closed before step %d", p.step)
	}
	p.end(err)
}

// A perftestServer answers, and leaves the closing to the client.
type perftestServer struct{ *perftest }

func newPerftestServer(s *side, t traffic) reactor.Handler {
	return perftestServer{&perftest{side: s, traffic: t}}
}

// OnMessage answers each step in kind.
func (p perftestServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if c == p.data {
		p.takeData(msg)
		return
	}
	if step, ok := p.takeStep(msg); ok {
		answer := make([]byte, len(msg.Data())) // a peer counts on its own size
		copy(answer, stepMessage(step, p.data))
		p.must(c.Send(answer))
	}
}

// A perftestClient leads.
type perftestClient struct {
	*perftest
	refused int // attempts to open the data connection
}

func newPerftestClient(s *side, t traffic) reactor.Handler {
	return &perftestClient{perftest: &perftest{side: s, traffic: t}}
}

// OnOpen begins the exchange, or goes on with it.
func (p *perftestClient) OnOpen(c *reactor.Conn) {
	p.perftest.OnOpen(c)
	p.next()
}

// OnMessage goes on after the answer.
func (p *perftestClient) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if c == p.data {
		p.takeData(msg)
		return
	}
	step, ok := p.takeStep(msg)
	switch {
	case !ok:
	case step == stepConnect:
		p.dial()
	case step == stepRun && p.data == nil:
		c.Abort(errors.New("the server is ahead of its data connection"))
	case step == stepRun:
		p.begin(p.perftest) // which calls next when it is done
	case step == stepEnd:
		p.data.Close()
		p.control.Close()
	default:
		p.next()
	}
}

func (p *perftestClient) dial() { p.must(p.engine.Dial(p.opts.addr, nil)) }

// OnDialError tries again: the server listens for the second connection only
// after it has answered.
func (p *perftestClient) OnDialError(_ *reactor.Dial, err error) {
	if p.refused++; p.control == nil || p.refused > 10 || !errors.Is(err, cm.ErrRefused) {
		p.end(err)
		return
	}
	p.control.Loop().After(100*time.Millisecond, p.dial)
}
