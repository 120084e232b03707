package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// ib_send_lat and ib_send_bw are programs of the perftest package. With -R, a first
// connection carries an exchange of messages in steps. In each step the client sends a
// message and the server answers with a message of the same kind. During the exchange
// the client opens a second connection to the same port, for the data.

// Steps of the exchange. Steps without a name only synchronize both sides.
const (
	stepVersion = iota
	stepCycle   // Size of the buffers, which is the page size.
	stepCacheLine
	stepMTU
	stepConnect // The data connection is opened after this step.
	stepConnected
	stepQueuePair
	_
	_
	stepRun // The data is sent after this step.
	stepEnd // All data has been delivered before this step.
	steps
)

// version is a release of perftest with the exchange above. Newer programs accept
// releases from 5.70 on, and releases from 6.28 on have more steps.
const version = "6.00"

// stepMessage returns the message of either side in a step.
func stepMessage(step int, data *reactor.Conn) []byte {
	switch step {
	case stepVersion:
		return append([]byte(version), make([]byte, 16-len(version))...)
	case stepCycle:
		return binary.BigEndian.AppendUint32(nil, 4096)
	case stepCacheLine:
		return binary.BigEndian.AppendUint32(nil, 64)
	case stepMTU:
		return []byte("3\x00") // Code of an MTU of 1024 bytes. The connection negotiates its own.
	}
	return endpointMessage(data)
}

// endpointSize is the length of the description of a connection in bytes. Releases from
// 2026 on send eight bytes more, before the GID, and accept fewer.
const endpointSize = 56

// endpointMessage returns a description of the data connection, if it is open. Numbers
// are big-endian. The peer only prints it.
func endpointMessage(data *reactor.Conn) []byte {
	b := make([]byte, endpointSize)
	if data != nil {
		gid := data.LocalAddr().Addr().As16()
		binary.BigEndian.PutUint32(b[8:], data.QPNum())
		copy(b[32:], gid[:])
	}
	return b
}

// A perftest is the common part of server and client of both programs.
type perftest struct {
	*endpoint
	traffic
	control, data *reactor.Conn
	step          int // Number of the next step.
	closed        int
}

// traffic is the use of the data connection.
type traffic interface {
	// begin is called when the client may send.
	begin(*perftest)
	// message is called when a message has arrived.
	message(*perftest)
	// more is called when the send queue has free places again.
	more(*perftest)
	// sent is called when a message that was sent with Notify has arrived.
	sent(*perftest)
}

// OnOpen stores the connections: the first is the control connection.
func (p *perftest) OnOpen(c *reactor.Conn) {
	if p.control == nil {
		p.control = c
	} else {
		p.data = c
	}
}

// next sends the message of the next step.
func (p *perftest) next() { p.check(p.control.Send(stepMessage(p.step, p.data))) }

// checkStep checks a message of the exchange, and returns its step.
func (p *perftest) checkStep(msg reactor.Message) (step int, ok bool) {
	got, want := len(msg.Data()), len(stepMessage(p.step, p.data))
	if p.step == steps || got < want || got > want && want != endpointSize {
		p.control.Abort(fmt.Errorf("step %d: a message of %d bytes, want %d", p.step, got, want))
		return 0, false
	}
	p.step++
	return p.step - 1, true
}

// handleData checks a data message and passes it to the traffic.
func (p *perftest) handleData(msg reactor.Message) {
	if len(msg.Data()) != p.opts.size {
		p.data.Abort(fmt.Errorf("a message of %d bytes, not %d", len(msg.Data()), p.opts.size))
		return
	}
	p.message(p)
}

// OnWritable lets the traffic send again.
func (p *perftest) OnWritable(*reactor.Conn) { p.more(p) }

// OnCompletion reports the completion of the last message to the traffic.
func (p *perftest) OnCompletion(_ *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		p.sent(p)
	}
}

// OnClose stops the endpoint when both connections have closed. In the last step the
// peer may close its connections in any order, before or after its last message.
func (p *perftest) OnClose(_ *reactor.Conn, err error) {
	if p.step < stepEnd || !errors.Is(err, reactor.ErrPeerClosed) {
		p.check(err)
	}
	if p.closed++; p.closed < 2 {
		return
	}
	err = nil
	if p.step < steps {
		err = fmt.Errorf("closed before step %d", p.step)
	}
	p.stop(err)
}

// A perftestServer answers the client. The client closes the connections.
type perftestServer struct{ *perftest }

func newPerftestServer(s *endpoint, t traffic) reactor.Handler {
	return perftestServer{&perftest{endpoint: s, traffic: t}}
}

// OnMessage answers each step.
func (p perftestServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if c == p.data {
		p.handleData(msg)
		return
	}
	if step, ok := p.checkStep(msg); ok {
		answer := make([]byte, len(msg.Data())) // The peer expects an answer of its own message's size.
		copy(answer, stepMessage(step, p.data))
		p.check(c.Send(answer))
	}
}

// A perftestClient starts each step.
type perftestClient struct {
	*perftest
	refused int // Rejected attempts to open the data connection.
}

func newPerftestClient(s *endpoint, t traffic) reactor.Handler {
	return &perftestClient{perftest: &perftest{endpoint: s, traffic: t}}
}

// OnOpen starts the exchange, or continues it.
func (p *perftestClient) OnOpen(c *reactor.Conn) {
	p.perftest.OnOpen(c)
	p.next()
}

// OnMessage continues with the next step.
func (p *perftestClient) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if c == p.data {
		p.handleData(msg)
		return
	}
	step, ok := p.checkStep(msg)
	switch {
	case !ok:
	case step == stepConnect:
		p.dial()
	case step == stepRun && p.data == nil:
		c.Abort(errors.New("the server has started before the data connection is open"))
	case step == stepRun:
		p.begin(p.perftest) // The traffic calls next when it is done.
	case step == stepEnd:
		p.data.Close()
		p.control.Close()
	default:
		p.next()
	}
}

func (p *perftestClient) dial() { p.check(p.engine.Dial(p.opts.addr, nil)) }

// OnDialError tries again, because the server listens for the second connection only
// after its answer.
func (p *perftestClient) OnDialError(_ *reactor.Dial, err error) {
	if p.refused++; p.control == nil || p.refused > 10 || !errors.Is(err, cm.ErrRefused) {
		p.stop(err)
		return
	}
	p.control.Loop().After(100*time.Millisecond, p.dial)
}
