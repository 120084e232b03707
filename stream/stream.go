package stream

import (
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Stream is one end of a stream of bytes. OnOpen passes the Stream to the application. Only the
// goroutine of the loop may use UserData and call the methods, except Conn. After OnClose, no
// bytes can be read or written, and the other methods return what they returned before.
type Stream struct {
	// UserData is a value of the application. Its first value is AcceptOptions.UserData or
	// DialOptions.UserData. This package does not use it.
	UserData any

	conn    *reactor.Conn
	handler Handler
	buffers Buffers
	private []byte // private data of the peer's application
	// request is the request that Accept has accepted, until the stream opens. It is nil
	// after Dial.
	request *Request

	region *reactor.Region // memory into which the peer writes: the ring and the table
	own    rsocket.Hello   // description of the memory for the peer
	peer   rsocket.Hello   // description of the peer's memory
	in     *rsocket.Receiver
	out    *rsocket.Sender

	reading    inState
	writing    outState
	sent       sentBytes
	blocked    bool // true if Write has returned ErrWouldBlock and OnWritable must follow
	dataPlaces int  // how many data messages may be outstanding
	// controls is the number of messages other than data messages that have not completed, at
	// most controlPlaces.
	controls int
	// cause is the error of OnClose if this package has ended the connection, or nil.
	cause         error
	closeReported bool // OnClose of the handler was called
}

// newStream returns a Stream whose connection is not known yet.
func newStream(h Handler, b Buffers, userData any) *Stream {
	return &Stream{UserData: userData, handler: h, buffers: b}
}

// Conn returns the connection of the stream, for its loop, addresses, parameters, counters and
// time limits. Any goroutine may call Conn. The application must not send or close with the
// connection, or change its UserData. A goroutine that computes something for the stream passes
// a function that uses the stream to Conn().Post.
func (s *Stream) Conn() *reactor.Conn { return s.conn }

// PeerPrivateData returns the private data of the peer's application. It may be padded
// with zeros. The slice belongs to the stream and stays valid.
func (s *Stream) PeerPrivateData() []byte { return s.private }

// privateData returns the function that makes the private data of this side: the Hello,
// and then the private data of the application.
func (s *Stream) privateData(ofApp []byte) func(*reactor.Conn) ([]byte, error) {
	return func(c *reactor.Conn) ([]byte, error) {
		if err := s.makeMemory(c); err != nil {
			return nil, err
		}
		return append(s.own.AppendTo(nil), ofApp...), nil
	}
}

// makeMemory makes the memory of the stream, and its description for the peer. It is
// called when the device of the connection is known.
func (s *Stream) makeMemory(c *reactor.Conn) error {
	info := c.Info()
	credits, err := creditsFor(info.MaxInFlight)
	if err != nil {
		return err
	}
	ring := s.buffers.Receive
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	tableAt := (ring + 7) &^ 7 // aligned, because the table has 64-bit numbers
	if s.region, err = c.Loop().Engine().Alloc(tableAt+rsocket.TableSize, access); err != nil {
		return err
	}
	s.conn, s.dataPlaces = c, info.MaxInFlight-controlPlaces
	c.UserData = s
	at, err := s.region.Remote(info.Device, 0, tableAt+rsocket.TableSize)
	if err != nil {
		return err
	}
	s.own = rsocket.Hello{
		Credits: credits,
		Table:   rsocket.Table{Addr: at.Addr + uint64(tableAt), Key: at.RKey, Entries: rsocket.TableSegments},
		First:   rsocket.Segment{Addr: at.Addr, Key: at.RKey, Length: uint32(ring / 2)},
	}
	return nil
}

// open prepares the stream for messages, when the connection is established.
func (s *Stream) open() {
	memory := s.region.Bytes()
	tableAt := len(memory) - rsocket.TableSize
	s.in = rsocket.NewReceiver(memory[:s.buffers.Receive], &s.own, &s.peer)
	s.out = rsocket.NewSender(memory[tableAt:], &s.peer)
	s.sendOffers() // offers the second half of the ring
}

// release ends the registration of the stream's memory.
func (s *Stream) release() {
	if s.region != nil {
		s.region.CloseFunc(nil)
	}
}

// A connHandler passes the callbacks of an open connection to its stream. The acceptor
// and the dialer embed it.
type connHandler struct{ reactor.BaseHandler }

// OnMessage handles a message of the peer.
func (connHandler) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if s := streamOf(c); s.in != nil { // otherwise the connection is ending
		s.received(msg)
	}
}

// OnCompletion handles the completion of a message of this side.
func (connHandler) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	streamOf(c).completed(op, err)
}

// OnClose ends the stream.
func (connHandler) OnClose(c *reactor.Conn, err error) {
	if s := streamOf(c); !s.closeReported {
		if err == nil && !s.writing.connOver() {
			err = reactor.ErrShutdown // The engine has closed the connection: see Handler.OnStop.
		}
		s.enterOver()
		s.reportClose(err)
	}
}

// OnStop lets the handler close the stream when the engine stops. The peer then gets the end of
// the stream and not a reset.
func (connHandler) OnStop(c *reactor.Conn) {
	s := streamOf(c)
	if !s.writing.over() { // Otherwise the stream is closing, or OnClose was called.
		s.handler.OnStop(s)
	}
}

// streamOf returns the stream of a connection.
func streamOf(c *reactor.Conn) *Stream { return c.UserData.(*Stream) }

// received handles a message of the peer.
func (s *Stream) received(msg reactor.Message) {
	imm, ok := msg.Imm()
	if s.writing.over() {
		s.receivedAtEnd(imm)
		return
	}
	if !ok || !msg.IsWriteImm() {
		s.fail(fmt.Errorf("%w: a message without immediate data", ErrProtocol))
		return
	}
	m, err := rsocket.Decode(imm)
	if err == nil {
		err = s.take(m)
	}
	if err != nil {
		s.fail(err)
	}
}

// take handles a decoded message.
func (s *Stream) take(m rsocket.Message) error {
	switch m.Kind {
	case rsocket.Data:
		if s.reading != inOpen {
			return fmt.Errorf("%w: data after the end of the stream", ErrProtocol)
		}
		if err := s.in.Data(m.Value); err != nil {
			return err
		}
		s.handler.OnData(s)
	case rsocket.Credit:
		if err := s.out.Credit(m.Value); err != nil {
			return err
		}
		s.writable()
	case rsocket.Mapping:
		return fmt.Errorf("%w: a mapping, but this side has no memory for mappings", ErrProtocol)
	case rsocket.Shutdown:
		s.peerEnded(inEnded)
	case rsocket.Disconnect:
		s.peerEnded(inClosed)
	}
	return nil
}

// Len returns the number of bytes that have arrived and were not discarded.
func (s *Stream) Len() int { return s.in.Len() }

// Bytes returns bytes that have arrived, the oldest first. If they wrap around the end of
// the ring, the result is shorter than Len: Discard makes the others available. The slice
// is in the ring. It is valid until Discard, and at most until OnClose returns. A peer
// that violates the protocol can change the bytes in the meantime.
func (s *Stream) Bytes() []byte { return s.in.Bytes() }

// Discard removes the first n bytes, at most Len, and returns how many it has removed.
// The peer may then write to their memory.
func (s *Stream) Discard(n int) int {
	n = max(0, min(n, s.in.Len()))
	s.in.Read(n)
	s.sendOffers()
	return n
}

// Read copies bytes that have arrived to b, removes them, and returns their number. The
// number is 0 if no bytes have arrived.
func (s *Stream) Read(b []byte) (n int) {
	for n < len(b) && s.in.Len() > 0 {
		part := copy(b[n:], s.in.Bytes())
		s.in.Read(part)
		n += part
	}
	s.sendOffers()
	return n
}

// sendOffers sends the credit messages that are due, which let the peer write more.
func (s *Stream) sendOffers() {
	if s.reading != inOpen || s.writing.over() {
		return // The peer writes no more, or this side sends no more messages.
	}
	for s.controls < controlPlaces {
		o, ok := s.in.Offer()
		if !ok {
			return
		}
		var payload []byte
		if o.HasSegment {
			payload = o.Segment[:]
		}
		s.sendControl(payload, reactor.Remote{Addr: o.To.Addr, RKey: o.To.Key}, o.Message)
	}
}

// maxSegment is the size in bytes of the longest data message. Longer messages would
// reach the reader later, because the reader learns of a message when it is complete.
// Arbitrary.
const maxSegment = 64 << 10

// A sentBytes counts the bytes that were written and are not confirmed, and decides which
// data messages report their completion.
type sentBytes struct {
	total     uint64 // bytes that were written
	confirmed uint64 // bytes of which the peer has confirmed the receipt
	// reported is the value of total after the last data message whose completion is
	// reported.
	reported uint64
	// unreported is the number of data messages after the last one whose completion is
	// reported.
	unreported int
}

// unconfirmed returns the number of bytes that are not confirmed.
func (s *sentBytes) unconfirmed() int { return int(s.total - s.confirmed) }

// quiet reports whether the completion of the next data message, of n bytes, need not be
// reported. It is reported if a quarter of the bytes or messages that may be outstanding
// was sent since the last message with a reported completion.
func (s *sentBytes) quiet(n, maxBytes, maxMessages int) bool {
	return int(s.total-s.reported)+n < (maxBytes+3)/4 && s.unreported < maxMessages/4
}

// add records a data message of n bytes.
func (s *sentBytes) add(n int, quiet bool) {
	s.total += uint64(n)
	s.unreported++
	if !quiet {
		s.reported, s.unreported = s.total, 0
	}
}

// Write writes a copy of b to the stream. The bytes are sent at the end of the loop's
// turn, or by Flush. The result is the number of bytes that were written. If it is less
// than len(b), the error is or matches:
//
//   - ErrWouldBlock: the peer has to read first, or too many bytes are not confirmed.
//     OnWritable follows.
//   - ErrClosed: this side has ended its writing direction, or the stream has ended.
//   - ErrPeerClosed: the peer has closed the stream.
//   - syscall.Errno: there is no memory for the copy.
func (s *Stream) Write(b []byte) (n int, err error) {
	if err := s.writeError(); err != nil {
		return 0, err
	}
	for n < len(b) {
		to := s.out.Next()
		size := min(len(b)-n, int(min(to.Length, maxSegment)), s.room())
		if size == 0 {
			s.blocked = true
			return n, ErrWouldBlock
		}
		if err := s.sendData(b[n:n+size], reactor.Remote{Addr: to.Addr, RKey: to.Key}); err != nil {
			return n, err
		}
		n += size
	}
	return n, nil
}

// Flush sends what was written at once, instead of at the end of the loop's turn.
func (s *Stream) Flush() { s.conn.Flush() }

// room returns how many bytes may be written before the peer confirms earlier ones.
func (s *Stream) room() int {
	if s.conn.Stats().InFlight-s.controls >= s.dataPlaces {
		return 0
	}
	return s.buffers.Send - s.sent.unconfirmed()
}

// sendData sends one data message.
func (s *Stream) sendData(b []byte, to reactor.Remote) error {
	o := reactor.OpOptions{
		HasImm: true, Imm: rsocket.Message{Kind: rsocket.Data, Value: uint32(len(b))}.Imm(),
		Tag: s.sent.total + uint64(len(b)), Quiet: s.sent.quiet(len(b), s.buffers.Send, s.dataPlaces),
	}
	if err := s.conn.WriteBytes(to, b, &o); err != nil {
		return err
	}
	s.out.Sent(len(b))
	s.sent.add(len(b), o.Quiet)
	return nil
}

// controlTag is a bit in the tag of messages that are no data. The other bits are the
// value of sentBytes.total when the message was sent.
const controlTag = 1 << 63

// sendControl sends a message that is no data. The caller checks that there is a place.
// If there is no memory for the message, sendControl ends the stream.
func (s *Stream) sendControl(payload []byte, to reactor.Remote, m rsocket.Message) {
	o := reactor.OpOptions{HasImm: true, Imm: m.Imm(), Tag: controlTag | s.sent.total}
	switch err := s.conn.WriteBytes(to, payload, &o); {
	case err == nil:
		s.controls++
	case !errors.Is(err, ErrClosed): // After ErrClosed, OnClose reports why the connection ends.
		s.fail(err)
	}
}

// untilClose returns ErrWouldBlock in place of an error of Write which means that the
// connection has failed. OnClose follows and has the reason.
func (s *Stream) untilClose(err error) error {
	if s.writing == outOpen && errors.Is(err, ErrClosed) {
		s.blocked = true
		return ErrWouldBlock
	}
	return err
}

// completed handles the completion of a message.
func (s *Stream) completed(op reactor.Op, err error) {
	if err != nil {
		return // OnClose follows.
	}
	s.sent.confirmed = op.Tag &^ controlTag
	if op.Tag&controlTag != 0 {
		s.controls--
		s.sendOffers()
		s.sendEnd()
	}
	s.writable()
}

// writable calls OnWritable if Write has returned ErrWouldBlock and more can be written
// now.
func (s *Stream) writable() {
	if s.blocked && s.writing == outOpen && s.out.Next().Length > 0 && s.room() > 0 {
		s.blocked = false
		s.handler.OnWritable(s)
	}
}
