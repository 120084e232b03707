package rsocket_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
)

// A side is one side of a simulated connection. Its memory has the addresses from base.
type side struct {
	hello    rsocket.Hello
	base     uint64
	memory   []byte // the table, and then the ring
	sender   *rsocket.Sender
	receiver *rsocket.Receiver
	peer     *side
	toSend   []byte
	received []byte
	// messages of the peer that have arrived in the memory, and were not handled yet
	arrived []uint32
	noData  int // number of messages in arrived that are no data
}

// newSide returns a side with a ring of the given size.
func newSide(base uint64, ringSize int, credits uint16, bigEndian bool) *side {
	s := &side{base: base, memory: make([]byte, rsocket.TableSize+ringSize)}
	s.hello = rsocket.Hello{
		BigEndian: bigEndian,
		Credits:   credits,
		Table:     rsocket.Table{Addr: base, Key: uint32(base), Entries: rsocket.TableSegments},
		First:     rsocket.Segment{Addr: base + rsocket.TableSize, Key: uint32(base), Length: uint32(ringSize / 2)},
	}
	return s
}

// join connects two sides.
func join(a, b *side) {
	for _, s := range []*side{a, b} {
		s.peer = b
		if s == b {
			s.peer = a
		}
		s.sender = rsocket.NewSender(s.memory[:rsocket.TableSize], &s.peer.hello)
		s.receiver = rsocket.NewReceiver(s.memory[rsocket.TableSize:], &s.hello, &s.peer.hello)
	}
}

// write writes data to the memory of the peer, and passes the message m to the peer.
func (s *side) write(t *testing.T, addr uint64, key uint32, data []byte, m rsocket.Message) {
	p := s.peer
	require.Equal(t, uint32(p.base), key)
	if len(data) > 0 {
		require.GreaterOrEqual(t, addr, p.base)
		require.LessOrEqual(t, addr+uint64(len(data)), p.base+uint64(len(p.memory)))
		copy(p.memory[addr-p.base:], data)
	}
	p.arrived = append(p.arrived, m.Imm())
	if m.Kind != rsocket.Data {
		p.noData++
	}
	require.LessOrEqual(t, p.noData, rsocket.ReservedCredits)
	require.LessOrEqual(t, len(p.arrived), int(p.hello.Credits), "a message would find no receive")
}

// send sends a data message of at most limit bytes, if the peer allows a message.
func (s *side) send(t *testing.T, limit int) {
	to := s.sender.Next()
	n := min(limit, int(to.Length), len(s.toSend))
	if n == 0 {
		return
	}
	s.write(t, to.Addr, to.Key, s.toSend[:n], rsocket.Message{Kind: rsocket.Data, Value: uint32(n)})
	s.toSend = s.toSend[n:]
	s.sender.Sent(n)
}

// handle handles the oldest message of the peer.
func (s *side) handle(t *testing.T) {
	if len(s.arrived) == 0 {
		return
	}
	m, err := rsocket.Decode(s.arrived[0])
	require.NoError(t, err)
	s.arrived = s.arrived[1:]
	if m.Kind == rsocket.Data {
		require.NoError(t, s.receiver.Data(m.Value))
		return
	}
	s.noData--
	require.NoError(t, s.sender.Credit(m.Value))
}

// read reads at most limit bytes.
func (s *side) read(limit int) {
	b := s.receiver.Bytes()
	b = b[:min(len(b), limit)]
	s.received = append(s.received, b...)
	s.receiver.Read(len(b))
}

// offer sends the credit message that is due, if there is one and fewer than
// ReservedCredits messages of this side wait at the peer.
func (s *side) offer(t *testing.T) {
	if s.peer.noData == rsocket.ReservedCredits {
		return
	}
	if o, ok := s.receiver.Offer(); ok {
		segment := o.Segment[:]
		if !o.HasSegment {
			segment, o.To.Key = nil, uint32(s.peer.base)
		}
		s.write(t, o.To.Addr, o.To.Key, segment, o.Message)
	}
}

// TestExchange sends random bytes in both directions at once, in random steps, through
// rings of several sizes. The test checks that all bytes arrive, and that the receiver of
// a message always has a receive for it.
func TestExchange(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ring := 2 << rng.IntN(12)
		credits := uint16(16 + rng.IntN(100))
		// A Sender reads its own table in little endian, so BigEndian is false for both sides.
		a, b := newSide(0x10000, ring, credits, false), newSide(0x7f0000, 2*ring, credits, false)
		join(a, b)
		total := 20 * ring
		sides := []*side{a, b}
		want := map[*side][]byte{}
		for _, s := range sides {
			s.toSend = make([]byte, total)
			for i := range s.toSend {
				s.toSend[i] = byte(rng.Uint32())
			}
			want[s.peer] = s.toSend
		}
		done := func() bool { return len(a.received) == total && len(b.received) == total }
		for step := 0; !done(); step++ {
			require.Less(t, step, 10_000_000/ring+100*total, "seed %d: the sides are stuck", seed)
			s := sides[rng.IntN(2)]
			switch rng.IntN(4) {
			case 0:
				s.send(t, 1+rng.IntN(ring))
			case 1:
				s.handle(t)
			case 2:
				s.read(1 + rng.IntN(ring))
			default:
				s.offer(t)
			}
		}
		for _, s := range sides {
			require.True(t, bytes.Equal(want[s], s.received), "seed %d", seed)
		}
	}
}

// TestBigEndianTable checks that a segment for a big endian peer is big endian.
func TestBigEndianTable(t *testing.T) {
	a, b := newSide(0x1000, 64, 16, false), newSide(0x2000, 64, 16, true)
	join(a, b)
	o, ok := a.receiver.Offer()
	require.True(t, ok)
	require.Equal(t, a.base+rsocket.TableSize+32, binary.BigEndian.Uint64(o.Segment[:]))
	require.Equal(t, uint32(32), binary.BigEndian.Uint32(o.Segment[12:]))
}

// TestViolations checks that messages that break the rules are errors.
func TestViolations(t *testing.T) {
	data := func(lengths ...uint32) func(*side) error {
		return func(s *side) (err error) {
			for _, n := range lengths {
				if err = s.receiver.Data(n); err != nil {
					return err
				}
			}
			return nil
		}
	}
	credit := func(values ...uint32) func(*side) error {
		return func(s *side) (err error) {
			for _, v := range values {
				if err = s.sender.Credit(v); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		do  func(*side) error
		bad bool
	}{
		"a segment exactly filled":     {data(16, 16), false},
		"beyond the segment":           {data(16, 17), true},
		"beyond all that was offered":  {data(32, 1), true},
		"a length near 2^32":           {data(1<<32 - 1), true},
		"more messages than credits":   {data(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), true},
		"a position that goes forward": {credit(17, 20, 1<<16|40), false},
		"a position that goes back":    {credit(15), true},
		"too many credits":             {credit(16+1<<15-1, 16+1<<16-2, 16+3<<15-3), true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newSide(0x1000, 64, 16, false), newSide(0x2000, 64, 16, false)
			join(a, b)
			if err := c.do(a); c.bad {
				require.ErrorIs(t, err, rsocket.ErrProtocol)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// FuzzPeer passes arbitrary messages, and arbitrary bytes in the table, to a side. No
// input may make it panic, read or write outside of its memory, or send without a limit.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 10, 0x80, 0, 1, 0x80})
	f.Add([]byte{0x80, 0, 0, 40, 0, 0, 0, 32, 0xe0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		a, b := newSide(0x1000, 64, 16, false), newSide(0x2000, 64, 16, false)
		join(a, b)
		// number of data messages that a may send
		credits := b.hello.Credits
		left := int(b.hello.Credits) - rsocket.ReservedCredits
		for ; len(input) >= 4; input = input[4:] {
			copy(a.memory[:rsocket.TableSize], input)
			m, err := rsocket.Decode(binary.BigEndian.Uint32(input))
			if err != nil {
				return
			}
			switch m.Kind {
			case rsocket.Data:
				err = a.receiver.Data(m.Value)
			case rsocket.Credit:
				left += int(uint16(m.Value) - credits)
				credits = uint16(m.Value)
				err = a.sender.Credit(m.Value)
			}
			if err != nil {
				return
			}
			require.LessOrEqual(t, a.receiver.Len(), 64)
			a.read(5)
			if o, ok := a.receiver.Offer(); ok && o.HasSegment {
				table := b.hello.Table
				require.GreaterOrEqual(t, o.To.Addr, table.Addr)
				require.LessOrEqual(t, o.To.Addr+rsocket.SegmentSize, table.Addr+rsocket.TableSize)
				require.Equal(t, table.Key, o.To.Key)
			}
			if to := a.sender.Next(); to.Length > 0 {
				require.Positive(t, left, "a message without a credit")
				a.sender.Sent(1)
				left--
			}
		}
	})
}
