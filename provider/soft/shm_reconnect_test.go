//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Two connected queue pairs are reset and connected again. The order of these steps does
// not matter, and neither does the time at which old notices are processed.
func TestReconnect(t *testing.T) {
	for name, reconnect := range map[string]func(a, b *end){
		"both are reset first": func(a, b *end) {
			a.reset()
			b.reset()
			a.connect(b, nil)
			b.connect(a, nil)
		},
		"one after the other": func(a, b *end) {
			a.reset()
			a.connect(b, nil)
			b.reset()
			b.connect(a, nil)
		},
		"notices of the first connection are late": func(a, b *end) {
			a.reset()
			b.reset()
			b.connect(a, nil)
			b.reset()
			a.connect(b, nil)
			b.connect(a, nil)
		},
		"notices are processed at once": func(a, b *end) {
			a.reset()
			a.connect(b, nil)
			becomeReady(a, b)
			b.reset()
			becomeReady(a, b)
			b.connect(a, nil)
			becomeReady(a, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newLocalPair(t, memoryConfig{})
			a.exchange(b)
			for range 3 {
				reconnect(a, b)
				a.exchange(b)
				b.exchange(a)
			}
		})
	}
}

// A message of the old connection may still be in the ring when the receiver has a new
// connection. The new connection does not get this message, and loses none of its own.
func TestMessageOfTheOldConnection(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newPair(t, d, verbs.ProgressManual)
	c := newEnd(t, d, 0, verbs.ProgressManual)
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("from a")})
	b.reset()
	b.connect(c, nil)
	c.connect(b, nil)
	c.exchange(b)
	require.Empty(t, b.pollN(10))
}

// An acknowledgement of the old connection may arrive when the queue pair has a new
// connection. It does not complete a request of the new connection.
func TestAcknowledgementOfTheOldConnection(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{vectors: 3})
	a, b := newPair(t, d, verbs.ProgressManual)
	for i := range 20 {
		b.recv(uint64(i), 0, 10)
		a.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	a.reset()
	c := newEnd(t, d, 2, verbs.ProgressManual)
	a.connect(c, nil)
	c.connect(a, nil)
	becomeReady(a, c)
	a.post(verbs.SendWR{ID: 777, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.pollN(10)
	require.Empty(t, a.pollN(100), "the new peer has not executed the request")
	c.recv(1, 0, 10)
	require.EqualValues(t, 777, a.wait(1, c)[0].ID)
}
