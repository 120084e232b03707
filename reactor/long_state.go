package reactor

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/longmsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// longSlots is the number of places that the send queue of a connection has for READs of
	// long messages and control messages, in addition to Config.MaxInFlight. The queue has
	// these places only if Config.MaxLongMessage is set.
	longSlots = 16
	// maxLongReads is how many READs of long messages a connection may have outstanding. The
	// other places of longSlots are for control messages. Arbitrary.
	maxLongReads = 8
	// longPiece is the size in bytes of the largest READ of a long message. On the local
	// path of the soft device, a READ of 1 MiB is the longest that the loop executes
	// itself, as a copy. Shorter copies were slower: 256 KiB reached 0.6 times the rate.
	longPiece = 1 << 20
	// longPart is the size in bytes of the largest part that OnPart gets. Arbitrary.
	longPart = 256 << 10
	// longUnderWay is the largest sum of the lengths of a connection's outstanding READs, in
	// bytes. On the local path the loop copies up to that many bytes in one turn. The number
	// is arbitrary.
	longUnderWay = 2 << 20
	// longWindow limits the messages that the receiver has to keep. A sender sends at most
	// longWindow messages from the oldest unconfirmed long message on, including that
	// message. Arbitrary.
	longWindow = 16
)

// A longState is the state of a connection with long messages. Conn.long is nil unless
// both sides have sent an offer: see package longmsg.
type longState struct {
	conn    *Conn
	limit   uint64 // length in bytes of the longest message that this side accepts
	send    longSends
	receive longReceive
	memory  longMemory
	shown   shownBuffers
	// scratch has a control message that is sent or received. A local variable would be
	// allocated on the heap.
	scratch longmsg.Control
	encoded [longmsg.MaxControl]byte // encoded form of scratch
}

// checkLong returns a *verbs.ParamError if the values for long messages do not fit
// together.
func (c *Config) checkLong() error {
	if c.MaxLongMessage == 0 {
		return nil
	}
	s := *c
	s.MaxMessage = orDefault(s.MaxMessage, defaultMaxMessage)
	s.setLongDefaults()
	switch {
	case s.MaxLongMessage <= s.MaxMessage:
		reason := fmt.Sprintf("must be more than MaxMessage, which is %d", s.MaxMessage)
		return &verbs.ParamError{Field: "MaxLongMessage", Value: int64(s.MaxLongMessage), Limit: int64(s.MaxMessage) + 1, Reason: reason}
	case s.MaxMessage < minLongMaxMessage:
		reason := fmt.Sprintf("must be at least %d, because MaxLongMessage is set", minLongMaxMessage)
		return &verbs.ParamError{Field: "MaxMessage", Value: int64(s.MaxMessage), Limit: minLongMaxMessage, Reason: reason}
	}
	if err := operr.CheckRange("LongConnBytes", s.Memory.LongConnBytes, longPart, math.MaxInt); err != nil {
		return err
	}
	return operr.CheckRange("LongLoopBytes", s.Memory.LongLoopBytes, s.Memory.LongConnBytes, math.MaxInt)
}

// setLongDefaults replaces zero values of the limits for long messages by the defaults.
func (c *Config) setLongDefaults() {
	if c.MaxLongMessage == 0 {
		return
	}
	c.Memory.LongConnBytes = orDefault(c.Memory.LongConnBytes, max(longPart, 1<<bits.Len(uint(c.MaxLongMessage-1))))
	c.Memory.LongLoopBytes = orDefault(c.Memory.LongLoopBytes, int(min(4*uint64(c.Memory.LongConnBytes), math.MaxInt)))
}

// longPeerBytes returns how many bytes of LongLoopBytes the connections of one peer may
// use together. If possible, one connection of another peer finds memory at any time.
func (c *Config) longPeerBytes() int {
	if rest := c.Memory.LongLoopBytes - c.Memory.LongConnBytes; rest >= c.Memory.LongConnBytes {
		return rest
	}
	return c.Memory.LongLoopBytes
}

// minLongMaxMessage is the smallest Config.MaxMessage with which a connection has long
// messages. A receive buffer must have room for a control message.
const minLongMaxMessage = 256

// longSlots returns how many places in the send queue of each connection are for long
// messages.
func (c *Config) longSlots() int {
	if c.MaxLongMessage == 0 {
		return 0
	}
	return longSlots
}

// privateRoom returns how many bytes of private data the application may use in a message
// of connection management. The parameter immediatesOnly is the option ImmediatesOnly of
// the connection.
func (c *Config) privateRoom(m cm.Message, immediatesOnly bool) int {
	room := cm.MaxPrivateData(cm.TCP, m)
	if c.MaxLongMessage > 0 && !immediatesOnly {
		room -= longmsg.OfferSize
	}
	return room
}

// offer returns the private data of a message of connection management, with an offer
// if this side receives long messages. The parameter depth is the number of READs that
// this side may have in flight.
func (c *Conn) offer(data []byte, m cm.Message, depth uint8) []byte {
	cfg := c.loop.cfg
	if cfg.MaxLongMessage == 0 || c.immediatesOnly {
		return data
	}
	limit := cfg.MaxLongMessage
	if depth == 0 {
		limit = 0
	}
	return longmsg.AppendOffer(data, cm.MaxPrivateData(cm.TCP, m), uint32(limit))
}

// agree prepares the connection for long messages, after both sides have offered them.
// The parameter peerLimit is the length in bytes of the longest message that the peer
// accepts.
func (c *Conn) agree(peerLimit uint32) {
	if c.info.param.ResponderResources == 0 {
		peerLimit = 0 // This side sends no long messages, because it allows the peer no READs.
	}
	c.long = &longState{conn: c, limit: uint64(c.loop.cfg.MaxLongMessage)}
	c.long.send.limit = uint64(peerLimit)
	c.long.send.imm, c.long.receive.imm = longmsg.FirstImm, longmsg.FirstImm
	c.long.receive.depth = min(maxLongReads, int(c.info.param.InitiatorDepth))
}

// A longSends has the long messages that were sent, and whose memory the peer still
// needs.
type longSends struct {
	limit uint64 // length in bytes of the longest message that the peer accepts
	imm   uint32 // immediate data of the control messages of this side

	// Long messages are numbered from 0, modulo 2^32. The ring has those with the numbers
	// from done to announced-1.
	ring      [longWindow]longSend
	announced uint32
	done      uint32
	// number of announcements whose requests are outstanding
	announcing int
	uses       useQueue // uses of regions by the messages; the first use of each is in longSend.use
}

// A longSend describes one long message.
type longSend struct {
	op     Op
	number uint32 // value of sendQueue.messages when the message was sent
	report reportWhen
	buffer *Buffer    // buffer to release after longmsg.Done, or nil
	use    *regionUse // use of a region that ends with the message, or nil
	more   int        // number of elements of longSends.uses that also end with the message
}

// outstanding returns the number of long messages whose memory the peer needs.
func (s *longSends) outstanding() int { return int(s.announced - s.done) }

// windowLacks reports whether longWindow forbids n further messages. The parameter messages
// is sendQueue.messages.
func (s *longSends) windowLacks(messages uint32, n int) bool {
	return s.outstanding() > 0 && int(messages-s.ring[s.done%longWindow].number)+n > longWindow
}

// longOutstanding returns the number of long messages whose memory the peer needs.
func (c *Conn) longOutstanding() int {
	if c.long == nil {
		return 0
	}
	return c.long.send.outstanding()
}

// longWindowFull reports whether longWindow forbids another message of the connection.
func (c *Conn) longWindowFull() bool { return c.longWindowLacks(1) }

// longWindowLacks reports whether longWindow forbids n further messages of the connection.
func (c *Conn) longWindowLacks(n int) bool {
	return c.long != nil && c.long.send.windowLacks(c.sends.messages, n)
}

// totalLength returns the number of bytes of the pieces. A negative length counts as 0,
// and a sum that is too large as the largest int.
func totalLength(pieces []Piece) (n int) {
	for i := range pieces {
		n += min(max(pieces[i].Length, 0), math.MaxInt-n)
	}
	return n
}
