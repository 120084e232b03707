package pairtest_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestReactorLong sends messages of many lengths: as copies, in leased buffers, and from
// memory of a region. The passive side sends them back. The active side receives the long
// ones in buffers, in memory of a region, and in parts. Another process runs the other
// side.
func TestReactorLong(t *testing.T) {
	s := &longSide{reactorSide: newReactorSide(t), want: make([]byte, longest)}
	s.run(s, &reactor.Config{MaxLongMessage: longest, Memory: reactor.Memory{LongConnBytes: 2 * longest}}, nil, func(e *reactor.Engine) {
		var err error
		s.source, err = e.Alloc(longest, verbs.AccessRemoteRead)
		require.NoError(t, err)
		s.target, err = e.Alloc(longest, verbs.AccessLocalWrite)
		require.NoError(t, err)
	}, func(*reactor.Engine) {
		require.NoError(t, s.source.Close())
		require.NoError(t, s.target.Close())
	})
	require.Equal(t, len(longLengths), s.received)
}

const (
	longest    = 4 << 20
	longOnWay  = 3   // largest number of messages that were sent and have not come back yet
	longImmAdd = 100 // difference between the immediate data and the number of a message
)

// longLengths are the lengths of the messages. Consecutive messages are sent in
// different ways.
var longLengths = []int{
	1, 4096, 4097, 10, 8192, 100_000, 256 << 10, 256<<10 + 1, 0, 1 << 20, 3<<20 + 7, longest, 5,
	longest, 8, 3 << 20, 70_000, longest - 1, 2 << 20, 1<<20 + 1, 300_000, 64,
}

// A longSide is the Handler of one side of TestReactorLong.
type longSide struct {
	reactorSide
	source, target *reactor.Region
	sent, received int    // numbers of messages that were sent and received so far
	want           []byte // room for the expected bytes of a message
	parts          []byte // bytes of the parts of the present message, so far
}

// expected returns the bytes of a message.
func (s *longSide) expected(number int) []byte {
	b := s.want[:longLengths[number]]
	clear(b)
	fill(b, uint64(number))
	return b
}

func (s *longSide) OnOpen(c *reactor.Conn) {
	if !s.passive {
		s.send(c)
	}
}

// send sends messages until longOnWay of them have not come back yet.
func (s *longSide) send(c *reactor.Conn) {
	for s.sent < len(longLengths) && s.sent-s.received < longOnWay {
		s.check(c, s.sendOne(c))
		s.sent++
	}
}

// sendOne sends the next message: a copy, a leased buffer, or memory of a region in two
// pieces. Only every third message uses the region, so at most one of longOnWay messages
// in a row uses it.
func (s *longSide) sendOne(c *reactor.Conn) error {
	data, o := s.expected(s.sent), reactor.OpOptions{HasImm: s.sent%2 == 0}
	if o.HasImm {
		o.Imm = uint32(s.sent + longImmAdd)
	}
	switch s.sent % longOnWay {
	case 0:
		return c.Send(data, &o)
	case 1:
		b, err := c.Lease(len(data))
		if err != nil {
			return err
		}
		if err := b.SetLen(copy(b.Bytes()[:len(data)], data)); err != nil {
			return err
		}
		return c.SendBuffer(b, &o)
	}
	n, half := copy(s.source.Bytes(), data), len(data)/2
	return c.SendV(&o, reactor.Piece{Region: s.source, Length: half}, reactor.Piece{Region: s.source, Offset: half, Length: n - half})
}

// OnLongMessage chooses how a message is received. On the active side, the number of the
// message decides between a buffer, memory of a region, and parts. The passive side
// always uses a buffer.
func (s *longSide) OnLongMessage(c *reactor.Conn, m *reactor.LongMessage) {
	switch {
	case s.passive:
	case s.received%3 == 1:
		s.check(c, m.Accept(reactor.Piece{Region: s.target, Length: longest}))
	case s.received%3 == 2:
		s.parts = s.parts[:0]
		m.Parts()
	}
}

func (s *longSide) OnPart(c *reactor.Conn, m *reactor.LongMessage, part reactor.Message) {
	if s.parts = append(s.parts, part.Data()...); len(s.parts) == m.Len() {
		s.arrived(c, s.parts, part)
	}
}

func (s *longSide) OnMessage(c *reactor.Conn, m reactor.Message) {
	if !s.passive {
		s.arrived(c, m.Data(), m)
		return
	}
	s.received++
	imm, has := m.Imm()
	s.check(c, c.SendBuffer(m.Keep(), &reactor.OpOptions{HasImm: has, Imm: imm}))
}

// arrived checks a message that the passive side has sent back.
func (s *longSide) arrived(c *reactor.Conn, data []byte, m reactor.Message) {
	imm, has := m.Imm()
	switch {
	case !bytes.Equal(s.expected(s.received), data):
		s.t.Errorf("message %d: wrong bytes", s.received)
	case has != (s.received%2 == 0) || has && imm != uint32(s.received+longImmAdd):
		s.t.Errorf("message %d: immediate data %d, %t", s.received, imm, has)
	}
	if s.received++; s.received == len(longLengths) {
		s.check(c, c.Close())
		return
	}
	s.send(c)
}
