//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Two connected queue pairs are reset and connected again. The order of these steps does
// not matter, and neither does the time at which old notices are processed.
func TestReconnect(t *testing.T) {
	for name, reconnect := range map[string]func(a, b *qptest.End){
		"both are reset first": func(a, b *qptest.End) {
			a.Reset()
			b.Reset()
			a.Connect(b, nil)
			b.Connect(a, nil)
		},
		"one after the other": func(a, b *qptest.End) {
			a.Reset()
			a.Connect(b, nil)
			b.Reset()
			b.Connect(a, nil)
		},
		"notices of the first connection are late": func(a, b *qptest.End) {
			a.Reset()
			b.Reset()
			b.Connect(a, nil)
			b.Reset()
			a.Connect(b, nil)
			b.Connect(a, nil)
		},
		"notices are processed at once": func(a, b *qptest.End) {
			a.Reset()
			a.Connect(b, nil)
			qptest.BecomeReady(a, b)
			b.Reset()
			qptest.BecomeReady(a, b)
			b.Connect(a, nil)
			qptest.BecomeReady(a, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newLocalPair(t, memoryConfig{})
			a.Exchange(b)
			for range 3 {
				reconnect(a, b)
				a.Exchange(b)
				b.Exchange(a)
			}
		})
	}
}

// A message of the old connection may still be in the ring when the receiver has a new
// connection. The new connection does not get this message, and loses none of its own.
func TestMessageOfTheOldConnection(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	c := qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("from a")})
	b.Reset()
	b.Connect(c, nil)
	c.Connect(b, nil)
	c.Exchange(b)
	require.Empty(t, b.PollN(10))
}

// An acknowledgement of the old connection may arrive when the queue pair has a new
// connection. It does not complete a request of the new connection.
func TestAcknowledgementOfTheOldConnection(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{vectors: 3})
	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	for i := range 20 {
		b.Recv(uint64(i), 0, 10)
		a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	a.Reset()
	c := qptest.NewEnd(t, d, 2, verbs.ProgressManual)
	a.Connect(c, nil)
	c.Connect(a, nil)
	qptest.BecomeReady(a, c)
	a.Post(verbs.SendWR{ID: 777, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	b.PollN(10)
	require.Empty(t, a.PollN(100), "the new peer has not executed the request")
	c.Recv(1, 0, 10)
	require.EqualValues(t, 777, a.Wait(1, c)[0].ID)
}
