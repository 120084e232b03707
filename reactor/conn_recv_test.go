package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A recorder is a Handler that records its OnOpen and OnMessage calls.
type recorder struct {
	BaseHandler
	calls []string
}

func (r *recorder) OnOpen(*Conn)                 { r.calls = append(r.calls, "open") }
func (r *recorder) OnMessage(_ *Conn, m Message) { r.calls = append(r.calls, string(m.Data())) }

// An idleQP is a queue pair whose requests never complete.
type idleQP struct{ verbs.QP }

func (idleQP) Modify(*verbs.QPAttr, verbs.QPAttrMask) error { return nil }
func (idleQP) PostRecv(wrs []verbs.RecvWR) (int, error)     { return len(wrs), nil }

// newTestConn makes a connection with 8 receive buffers and without a device.
func newTestConn(t *testing.T, h Handler) *Conn {
	cfg, err := (*Config)(nil).withDefaults()
	require.NoError(t, err)
	l := &Loop{engine: &Engine{cfg: cfg}, handler: h, cfg: cfg}
	c := &Conn{loop: l, handler: h, qp: idleQP{}, state: stateConnecting, opening: &opening{}}
	c.device = newTestDevice(l, &memorytest.PD{}, 64)
	l.conns.add(c)
	c.recvs.own = newRecvQueue(8, c.key)
	for range 8 {
		b, err := c.device.smallBuffer()
		require.NoError(t, err)
		c.recvs.own.stage(b)
	}
	c.post()
	return c
}

// arrive copies the text to the receive buffer in the given slot. Then it makes c handle
// the completion of this buffer.
func arrive(c *Conn, slot int, text string, status verbs.Status) {
	copy(c.recvs.own.buffers[slot].memory, text)
	c.device.complete(&verbs.WC{
		ID: uint64(c.key | connBit | recvBit | wrID(slot)), Status: status, Opcode: verbs.WCRecv, ByteLen: uint32(len(text)),
	})
}

// TestMessagesBeforeOpenAreHeld checks that a message that arrives before the connection
// is established follows OnOpen.
func TestMessagesBeforeOpenAreHeld(t *testing.T) {
	r := &recorder{}
	c := newTestConn(t, r)
	arrive(c, 0, "one", verbs.StatusSuccess)
	arrive(c, 1, "two", verbs.StatusSuccess)
	require.Empty(t, r.calls)
	c.on(eventEstablished)
	arrive(c, 2, "three", verbs.StatusSuccess)
	require.Equal(t, []string{"open", "one", "two", "three"}, r.calls)
}

// TestHeldMessagesOfDisconnectedPeer checks that messages are delivered even if the peer
// disconnects before cm.Established.
func TestHeldMessagesOfDisconnectedPeer(t *testing.T) {
	r := &recorder{}
	c := newTestConn(t, r)
	arrive(c, 0, "one", verbs.StatusSuccess)
	c.onDisconnected(nil, nil)
	require.Equal(t, []string{"open", "one"}, r.calls)
	require.Equal(t, StateClosing, c.State())
	require.ErrorIs(t, c.closing.reason.cause, ErrPeerClosed)
}

// TestMessagesWhileClosing checks that messages are delivered after a failure or a close
// by the peer, and discarded after Close, Abort, a time limit or
// OnClose.
func TestMessagesWhileClosing(t *testing.T) {
	for name, test := range map[string]struct {
		end       func(*Conn)
		delivered bool
	}{
		"failure":     {func(c *Conn) { c.endWith(verbs.ErrProtocol) }, true},
		"peer closed": {func(c *Conn) { c.onDisconnected(nil, nil) }, true},
		"abort":       {func(c *Conn) { require.NoError(t, c.Abort(nil)) }, false},
		"time limit":  {func(c *Conn) { c.endBy(ErrIdle) }, false},
		"close":       {func(c *Conn) { require.NoError(t, c.Close()) }, false},
		"OnClose":     {func(c *Conn) { c.enter(stateDisconnecting) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			c := newTestConn(t, r)
			c.on(eventEstablished)
			test.end(c)
			arrive(c, 0, "message", verbs.StatusSuccess)
			if test.delivered {
				require.Equal(t, []string{"open", "message"}, r.calls)
				return
			}
			require.Equal(t, []string{"open"}, r.calls)
			require.EqualValues(t, 1, c.loop.stats.Discarded)
		})
	}
}

// TestUnmatchedCompletions checks that a completion of an unknown connection is dropped.
// A completion without a posted buffer ends the connection.
func TestUnmatchedCompletions(t *testing.T) {
	r := &recorder{}
	c := newTestConn(t, r)
	c.on(eventEstablished)
	c.device.complete(&verbs.WC{ID: uint64(wrID(99) << indexShift)})
	require.EqualValues(t, 1, c.loop.stats.LateCompletions)
	require.Equal(t, StateOpen, c.State())

	arrive(c, 3, "out of order", verbs.StatusSuccess)
	require.Equal(t, []string{"open"}, r.calls)
	require.Equal(t, StateClosing, c.State())
	require.ErrorIs(t, c.closing.reason.cause, verbs.ErrProtocol)
}

// TestReceivedLengthIsChecked checks that no message exceeds its buffer, whatever length
// the device reports.
func TestReceivedLengthIsChecked(t *testing.T) {
	b := Buffer{memory: make([]byte, 4)}
	b.setMessage(&verbs.WC{Opcode: verbs.WCRecv, ByteLen: 1 << 31})
	require.Len(t, b.Bytes(), 4)
	b.setMessage(&verbs.WC{Opcode: verbs.WCRecvWriteImm, ByteLen: 4})
	require.Empty(t, b.Bytes())
}

// A keeper is a Handler that passes each message to a function.
type keeper struct {
	BaseHandler
	onMessage func(Message)
}

func (k *keeper) OnMessage(_ *Conn, m Message) { k.onMessage(m) }

// arriveInline makes c handle a message that was received without a buffer.
func arriveInline(c *Conn, data []byte) {
	c.device.completeInline(&verbs.WC{ID: uint64(c.key | connBit | recvBit), Opcode: verbs.WCRecv, Flags: verbs.WCInline, ByteLen: uint32(len(data))}, data)
}

// TestInlineMessage checks that an inline message needs no buffer, except a copy for
// Keep.
func TestInlineMessage(t *testing.T) {
	k := &keeper{}
	c := newTestConn(t, k)
	c.on(eventEstablished)
	free := func() (n int) {
		for b := range c.device.pool.All() {
			if b.state == bufferFree {
				n++
			}
		}
		return n
	}
	before := free()
	var first Message
	k.onMessage = func(m Message) {
		first = m
		require.Equal(t, "one", string(m.Data()))
		_, imm := m.Imm()
		require.False(t, imm)
		require.False(t, m.IsWriteImm())
	}
	arriveInline(c, []byte("one"))
	require.Nil(t, first.Keep(), "after OnMessage has returned")
	require.Equal(t, before, free())

	var kept *Buffer
	k.onMessage = func(m Message) {
		require.Nil(t, first.Keep(), "the message before this one")
		kept = m.Keep()
		require.Same(t, kept, m.Keep())
		m.Data()[0] = 'T'
		require.Equal(t, "Two", string(kept.Bytes()), "Data returns the bytes of the kept buffer")
	}
	data := []byte("two")
	arriveInline(c, data)
	copy(data, "---")
	require.Equal(t, "Two", string(kept.Bytes()))
	require.Equal(t, before-1, free())
	require.NoError(t, kept.Release())
	require.Equal(t, before, free())
	require.EqualValues(t, 8, c.recvs.own.inFlight())
	require.EqualValues(t, 2, c.stats.Messages)
	require.EqualValues(t, 6, c.stats.MessageBytes)
}

// TestKeepInlineMessageWithoutMemory checks that an inline message stays readable when
// Keep finds no memory.
func TestKeepInlineMessageWithoutMemory(t *testing.T) {
	k := &keeper{}
	c := newTestConn(t, k)
	c.on(eventEstablished)
	c.device.pool.PD = &memorytest.PD{Refuse: verbs.ErrNoResources}
	for err := error(nil); err == nil; {
		_, err = c.device.smallBuffer()
	}
	calls := 0
	k.onMessage = func(m Message) {
		calls++
		require.Nil(t, m.Keep())
		require.Equal(t, "text", string(m.Data()))
	}
	arriveInline(c, []byte("text"))
	require.Equal(t, 1, calls)
}

// TestLateInlineMessage checks that a message for an ended connection is counted.
func TestLateInlineMessage(t *testing.T) {
	c := newTestConn(t, &keeper{})
	l := c.loop
	l.conns.remove(c.key)
	arriveInline(c, []byte("late"))
	require.EqualValues(t, 1, l.stats.LateCompletions)
}
