package stream

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Stream is one end of a stream of bytes. OnOpen passes the Stream to the application.
// Only the goroutine of the loop may call the methods. After OnClose, no bytes can be
// read or written, and the other methods return what they returned before.
type Stream struct {
	conn    *reactor.Conn
	handler Handler
	buffers Buffers
	context any
	private []byte // private data of the peer's application
	// request is the request that Accept has accepted, until the stream opens. It is nil
	// after Dial.
	request *Request

	region *reactor.Region // memory into which the peer writes: the ring and the table
	own    rsocket.Hello   // description of the memory for the peer
	peer   rsocket.Hello   // description of the peer's memory
	in     *rsocket.Receiver
	out    *rsocket.Sender

	reading inState
	writing outState
	sent    sentBytes
	// controls is the number of messages other than data messages that have not completed, at
	// most controlPlaces.
	controls int
	// cause is the error of OnClose if this package has ended the connection, or nil.
	cause error
}

// newStream returns a Stream whose connection is not known yet.
func newStream(h Handler, b Buffers, context any) *Stream {
	return &Stream{handler: h, buffers: b, context: context}
}

// privateData returns the function that makes the private data of this side: the Hello,
// and then the private data of the application.
func (s *Stream) privateData(ofApp []byte) reactor.PrivateDataFunc {
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
	credits, err := creditsFor(c.MaxInFlight())
	if err != nil {
		return err
	}
	ring := s.buffers.Receive
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	tableAt := (ring + 7) &^ 7 // aligned, because the table has 64-bit numbers
	if s.region, err = c.Loop().Engine().Alloc(tableAt+rsocket.TableSize, access); err != nil {
		return err
	}
	s.conn = c
	c.SetContext(s)
	pieces, err := s.region.Remote(c, 0, tableAt+rsocket.TableSize)
	if err != nil {
		return err
	}
	if len(pieces) != 1 {
		return &verbs.ParamError{Field: "Buffers.Receive", Value: int64(ring), Limit: int64(pieces[0].Length), Reason: "the device can not register so much memory at once"}
	}
	at := pieces[0].Remote
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

// Conn returns the connection of the stream, for its addresses, parameters, counters,
// deadline and idle timeout. The application must not send or close with it.
func (s *Stream) Conn() *reactor.Conn { return s.conn }

// Loop returns the loop to which the stream belongs.
func (s *Stream) Loop() *reactor.Loop { return s.conn.Loop() }

// LocalAddr returns the address and the port of this side.
func (s *Stream) LocalAddr() netip.AddrPort { return s.conn.LocalAddr() }

// RemoteAddr returns the address and the port of the peer.
func (s *Stream) RemoteAddr() netip.AddrPort { return s.conn.RemoteAddr() }

// Context returns the value that SetContext has stored. Before SetContext it returns
// AcceptOptions.Context or DialOptions.Context.
func (s *Stream) Context() any { return s.context }

// SetContext stores a value for the application.
func (s *Stream) SetContext(v any) { s.context = v }

// PeerPrivateData returns the private data of the peer's application. It may be padded
// with zeros.
func (s *Stream) PeerPrivateData() []byte { return s.private }
