package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// ib_send_lat and ib_send_bw are programs of the perftest package. With the flag -R,
// their first connection is a control connection, on which the two sides exchange
// messages in steps. In each step the client sends a message, and the server answers with
// a message of the same kind. During one of these steps the client opens a second
// connection to the same port. The second connection is for the data.

// Numbers of the steps. The steps without a name only synchronize both sides.
const (
	stepVersion = iota
	// In this step both sides send the size of their buffers, which is the page size.
	stepCycle
	stepCacheLine
	stepMTU
	stepConnect // After this step, the client opens the data connection.
	stepConnected
	stepQueuePair
	_
	_
	stepRun // After this step, the data is sent.
	stepEnd // When this step begins, all data has been delivered.
	steps
)

// version is the release of perftest that this program reports to its peer. Newer
// releases of perftest accept a peer of release 5.70 or later. Releases from 6.28 on
// exchange messages in more steps, so this program reports an earlier release.
const version = "6.00"

// stepMessage returns the message of a step. Both sides send the same message. The
// parameter data is the data connection, or nil before that connection has opened.
func stepMessage(step int, data *reactor.Conn) []byte {
	switch step {
	case stepVersion:
		return append([]byte(version), make([]byte, 16-len(version))...)
	case stepCycle:
		return binary.BigEndian.AppendUint32(nil, 4096)
	case stepCacheLine:
		return binary.BigEndian.AppendUint32(nil, 64)
	case stepMTU:
		// This text is the code for an MTU of 1024 bytes. The peer does not use the
		// value, because the data connection negotiates its own MTU.
		return []byte("3\x00")
	}
	return endpointMessage(data)
}

// endpointSize is the length in bytes of the message that describes a connection.
// Releases of perftest since 2026 add eight bytes before the GID, but also accept the
// message without these bytes.
const endpointSize = 56

// endpointMessage returns the message that describes the data connection. Numbers are
// big-endian. If the data connection is not open yet, all fields are zero. The peer only
// prints the values.
func endpointMessage(data *reactor.Conn) []byte {
	b := make([]byte, endpointSize)
	if data != nil {
		gid := data.LocalAddr().Addr().As16()
		binary.BigEndian.PutUint32(b[8:], data.QPNum())
		copy(b[32:], gid[:])
	}
	return b
}

// A perftest is the common part of the server and the client for ib_send_lat and
// ib_send_bw.
type perftest struct {
	*endpoint
	traffic
	control, data *reactor.Conn
	step          int // Number of the next step.
	closed        int
}

// A traffic sends and receives the messages on the data connection.
type traffic interface {
	// onStart is called when the client may start to send data.
	onStart(*perftest)
	// onMessage is called when a message has arrived on the data connection.
	onMessage(*perftest)
	// onWritable is called when the send queue was full and has free places again.
	onWritable(*perftest)
	// onDelivered is called when a message that was sent with Notify has been delivered.
	onDelivered(*perftest)
}

// OnOpen stores the connection. The first connection is the control connection, the
// second the data connection.
func (p *perftest) OnOpen(c *reactor.Conn) {
	if p.control == nil {
		p.control = c
	} else {
		p.data = c
	}
}

// sendStep sends this side's message of the next step.
func (p *perftest) sendStep() { p.check(p.control.Send(stepMessage(p.step, p.data))) }

// checkStep checks a message of the exchange, and returns the number of its step.
func (p *perftest) checkStep(msg reactor.Message) (step int, ok bool) {
	got, want := len(msg.Data()), len(stepMessage(p.step, p.data))
	if p.step == steps || got < want || got > want && want != endpointSize {
		p.control.Abort(fmt.Errorf("step %d: a message of %d bytes, want %d", p.step, got, want))
		return 0, false
	}
	p.step++
	return p.step - 1, true
}

// handleData checks the size of a data message and passes it to the traffic.
func (p *perftest) handleData(msg reactor.Message) {
	if len(msg.Data()) != p.opts.size {
		p.data.Abort(fmt.Errorf("a message of %d bytes, not %d", len(msg.Data()), p.opts.size))
		return
	}
	p.onMessage(p)
}

// OnWritable lets the traffic send further messages.
func (p *perftest) OnWritable(*reactor.Conn) { p.onWritable(p) }

// OnCompletion tells the traffic that its last message has been delivered.
func (p *perftest) OnCompletion(_ *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		p.onDelivered(p)
	}
}

// OnClose stops the endpoint when both connections have closed. The peer may close its
// connections in any order.
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

// OnMessage answers each step of the exchange with a message of the same step.
func (p perftestServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if c == p.data {
		p.handleData(msg)
		return
	}
	if step, ok := p.checkStep(msg); ok {
		// The peer expects an answer that is as long as the peer's own message.
		answer := make([]byte, len(msg.Data()))
		copy(answer, stepMessage(step, p.data))
		p.check(c.Send(answer))
	}
}

// A perftestClient sends the first message of each step.
type perftestClient struct {
	*perftest
	// How often the server has rejected the data connection.
	refused int
}

func newPerftestClient(s *endpoint, t traffic) reactor.Handler {
	return &perftestClient{perftest: &perftest{endpoint: s, traffic: t}}
}

// OnOpen starts the exchange when the control connection has opened, and continues it
// when the data connection has opened.
func (p *perftestClient) OnOpen(c *reactor.Conn) {
	p.perftest.OnOpen(c)
	p.sendStep()
}

// OnMessage continues with the next step when the server's answer has arrived.
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
		// The exchange of messages continues when the traffic calls sendStep.
		p.onStart(p.perftest)
	case step == stepEnd:
		p.data.Close()
		p.control.Close()
	default:
		p.sendStep()
	}
}

func (p *perftestClient) dial() { p.check(p.engine.Dial(p.opts.addr, nil)) }

// OnDialError dials the data connection again if the server has rejected it. A reject is
// expected: the server first answers the message of the client, and then starts to
// listen for the data connection. So the request may arrive too early.
func (p *perftestClient) OnDialError(_ *reactor.DialOptions, err error) {
	if p.refused++; p.control == nil || p.refused > 10 || !errors.Is(err, cm.ErrRefused) {
		p.stop(err)
		return
	}
	p.control.Loop().After(100*time.Millisecond, p.dial)
}
