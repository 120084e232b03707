package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// ib_send_lat and ib_send_bw are programs of the perftest package. With the flag -R, they
// first exchange messages in steps on a control connection. The data goes over a second
// connection.

// Numbers of the steps. The steps without a name only synchronize the sides.
const (
	stepVersion = iota
	// in this step, both sides send the size of their buffers, which is the page size
	stepCycle
	stepCacheLine
	stepMTU
	stepConnect // after this step, the client opens the data connection
	stepConnected
	stepQueuePair
	_
	_
	stepRun // after this step, the data is sent
	stepEnd // before this step, all data has been delivered
	steps
)

// perftest release that this program reports. Newer releases require at least 5.70 of
// their peer. Releases from 6.28 on have more steps.
const version = "6.00"

// stepMessage returns this side's message of a step. The parameter data is the data
// connection, or nil if it is not open.
func stepMessage(step int, data *reactor.Conn) []byte {
	switch step {
	case stepVersion:
		return append([]byte(version), make([]byte, 16-len(version))...)
	case stepCycle:
		return binary.BigEndian.AppendUint32(nil, 4096)
	case stepCacheLine:
		return binary.BigEndian.AppendUint32(nil, 64)
	case stepMTU:
		// 3 is the code for an MTU of 1024 bytes. The peer ignores this message.
		return []byte("3\x00")
	}
	return endpointMessage(data)
}

// Length in bytes of the description of a connection. Releases since 2026 send eight more
// bytes, but accept this length.
const endpointSize = 56

// endpointMessage returns the description of the data connection. The numbers are
// big-endian. Until the connection opens, all fields are zero. The peer only prints the
// description.
func endpointMessage(data *reactor.Conn) []byte {
	b := make([]byte, endpointSize)
	if data != nil {
		gid := data.Info().LocalAddr.Addr().As16()
		binary.BigEndian.PutUint32(b[8:], data.Info().QPNum)
		copy(b[32:], gid[:])
	}
	return b
}

// A perftest is what the server and the client have in common.
type perftest struct {
	*endpoint
	traffic
	control, data *reactor.Conn
	step          int // number of the next step
	closed        int
}

// A traffic sends and receives the messages on the data connection. Its methods are
// callbacks.
type traffic interface {
	// onStart is called when the client may start to send data.
	onStart(*perftest)
	// onMessage is called when data has arrived.
	onMessage(*perftest)
	// onWritable is called when the send queue, which was full, has free places.
	onWritable(*perftest)
	// onDelivered is called when a message sent with Notify has been delivered.
	onDelivered(*perftest)
}

// OnOpen stores the connection. The control connection opens before the data connection.
func (p *perftest) OnOpen(c *reactor.Conn) {
	if p.control == nil {
		p.control = c
	} else {
		p.data = c
	}
}

// sendStep sends this side's message of the next step.
func (p *perftest) sendStep() { p.check(p.control.Send(stepMessage(p.step, p.data), nil)) }

// checkStep checks a message and returns the number of its step.
func (p *perftest) checkStep(msg reactor.Message) (step int, ok bool) {
	got, want := len(msg.Data()), len(stepMessage(p.step, p.data))
	if p.step == steps || got < want || got > want && want != endpointSize {
		p.control.Abort(fmt.Errorf("step %d: a message of %d bytes, want %d", p.step, got, want))
		return 0, false
	}
	p.step++
	return p.step - 1, true
}

// handleData checks the size of a data message and calls onMessage.
func (p *perftest) handleData(msg reactor.Message) {
	if len(msg.Data()) != p.opts.size {
		p.data.Abort(fmt.Errorf("a message of %d bytes, not %d", len(msg.Data()), p.opts.size))
		return
	}
	p.onMessage(p)
}

// OnWritable lets the traffic send more messages.
func (p *perftest) OnWritable(*reactor.Conn) { p.onWritable(p) }

// OnCompletion tells the traffic that its last message has been delivered.
func (p *perftest) OnCompletion(_ *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		p.onDelivered(p)
	}
}

// OnClose stops the endpoint when both connections have closed.
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

// OnMessage answers each step with a message of the same step.
func (p perftestServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if c == p.data {
		p.handleData(msg)
		return
	}
	if step, ok := p.checkStep(msg); ok {
		// The answer must be as long as the peer's message.
		answer := make([]byte, len(msg.Data()))
		copy(answer, stepMessage(step, p.data))
		p.check(c.Send(answer, nil))
	}
}

// A perftestClient sends the first message of each step.
type perftestClient struct {
	*perftest
	// Number of times that the server has rejected the data connection.
	refused int
}

func newPerftestClient(s *endpoint, t traffic) reactor.Handler {
	return &perftestClient{perftest: &perftest{endpoint: s, traffic: t}}
}

// OnOpen starts the exchange on the control connection. The exchange continues when the
// data connection has opened.
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
		// The exchange continues when the traffic calls sendStep.
		p.onStart(p.perftest)
	case step == stepEnd:
		p.data.Close()
		p.control.Close()
	default:
		p.sendStep()
	}
}

func (p *perftestClient) dial() { p.check(p.engine.Dial(p.opts.addr, nil)) }

// OnDialError dials the data connection again after a reject. The server answers
// stepConnect before it listens, and rejects requests until it listens.
func (p *perftestClient) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	if p.refused++; p.control == nil || p.refused > 10 || !errors.Is(err, cm.ErrRefused) {
		p.stop(err)
		return
	}
	p.control.Loop().After(100*time.Millisecond, p.dial)
}
