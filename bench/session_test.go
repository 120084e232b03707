package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fakeTransport is a transport without a network. It runs posted functions at once and
// records the messages.
type fakeTransport struct {
	sent []uint64
	free int // Number of messages that the send queue still accepts.
	// Functions that were passed to transport.after and have not run yet.
	later   []func()
	delay   time.Duration // Delay in the last call of transport.after.
	refused error
	closed  int
}

func (f *fakeTransport) post(g func()) error { g(); return nil }

func (f *fakeTransport) after(d time.Duration, g func()) {
	f.delay = d
	f.later = append(f.later, g)
}

func (f *fakeTransport) dial(s *session) error {
	if f.refused == nil {
		s.onOpen(f)
	}
	return f.refused
}

func (f *fakeTransport) closeConn(s *session) { f.closed++; s.onClose(nil) }

func (f *fakeTransport) Close() error { return nil }

func (f *fakeTransport) send(n uint64) error {
	if f.free == 0 {
		return errBlocked
	}
	f.free--
	f.sent = append(f.sent, n)
	return nil
}

// startedDriver returns a driver in a phase that is longer than the test.
func startedDriver(t *testing.T, c Case) (*driver, *fakeTransport) {
	f := &fakeTransport{free: 1000}
	d := newDriver(&spec{Case: c})
	d.transport = f
	require.NoError(t, d.open())
	d.deadline = time.Hour
	d.start()
	return d, f
}

func answerOf(d *driver, n uint64) []byte {
	b := make([]byte, d.spec.answer())
	putNumber(b, n)
	return b
}

func TestPingPong(t *testing.T) {
	d, f := startedDriver(t, Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 1})
	require.Equal(t, []uint64{1}, f.sent)
	d.sessions[0].onAnswer(answerOf(d, 1))
	require.Equal(t, []uint64{1, 2}, f.sent)
	d.deadline = 0
	d.sessions[0].onAnswer(answerOf(d, 2))
	require.Len(t, f.sent, 2, "no message is sent after the deadline")
	require.NoError(t, <-d.done)
	require.EqualValues(t, 2, d.tally.Msgs)
	require.EqualValues(t, 2, d.tally.Times.TotalCount())
}

// TestStream checks that a stream keeps InFlight messages in flight, and ends when all
// are answered.
func TestStream(t *testing.T) {
	d, f := startedDriver(t, Case{Workload: workStream, Size: 64, InFlight: 32, Connections: 1})
	s := d.sessions[0]
	require.Len(t, f.sent, 32)
	s.onAnswer(answerOf(d, 8))
	require.Len(t, f.sent, 40)
	d.deadline = 0
	for n := uint64(16); n <= 40; n += 8 {
		require.Empty(t, d.done)
		s.onAnswer(answerOf(d, n))
	}
	require.NoError(t, <-d.done)
	require.EqualValues(t, 40, d.tally.Msgs)
	require.Zero(t, d.tally.Times.TotalCount())
}

// TestBlocked checks that a message for which the send queue has no room is sent once,
// when there is room.
func TestBlocked(t *testing.T) {
	d, f := startedDriver(t, Case{Workload: workStream, Size: 64, InFlight: 1, Connections: 1})
	s := d.sessions[0]
	f.free = 0
	s.onAnswer(answerOf(d, 1))
	require.Equal(t, []uint64{1}, f.sent)
	f.free = 5
	s.onWritable()
	s.onWritable()
	require.Equal(t, []uint64{1, 2}, f.sent)
}

func TestWrongAnswers(t *testing.T) {
	for name, answer := range map[string]func(*driver) []byte{
		"another message": func(d *driver) []byte { return answerOf(d, 2) },
		"short":           func(d *driver) []byte { return answerOf(d, 1)[:8] },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := startedDriver(t, Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 1})
			d.sessions[0].onAnswer(answer(d))
			require.ErrorContains(t, <-d.done, "did not return message 1")
		})
	}
}

func TestLostConnection(t *testing.T) {
	d, _ := startedDriver(t, Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 1})
	d.sessions[0].onClose(errors.New("why"))
	require.ErrorContains(t, <-d.done, "why")
}

func TestRefusedConnection(t *testing.T) {
	d := newDriver(&spec{Case: Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 2}})
	d.transport = &fakeTransport{refused: errors.New("why")}
	require.ErrorContains(t, d.open(), "why")
}

// TestConnections checks which connections send messages in workConnsIdle and
// workConnsActive.
func TestConnections(t *testing.T) {
	c := Case{Workload: workConnsIdle, Size: 16, InFlight: 1, Connections: 5}
	_, f := startedDriver(t, c)
	require.Len(t, f.sent, 1)
	c.Workload = workConnsActive
	d, f := startedDriver(t, c)
	require.Len(t, f.sent, 5)
	d.deadline = 0
	for _, s := range d.sessions {
		require.Empty(t, d.done)
		s.onAnswer(answerOf(d, 1))
	}
	require.NoError(t, <-d.done)
}

// TestConnect checks that each connection of workConnect sends one message.
func TestConnect(t *testing.T) {
	d, f := startedDriver(t, Case{Workload: workConnect, Size: 16, InFlight: 1, Connections: 1})
	d.sessions[0].onAnswer(answerOf(d, 1))
	require.Equal(t, []uint64{1, 1}, f.sent)
	d.deadline = 0
	d.sessions[0].onAnswer(answerOf(d, 1))
	require.Equal(t, 2, f.closed)
	require.NoError(t, <-d.done)
	require.EqualValues(t, 2, d.tally.Msgs)
}

// TestIdle checks that workIdle sends at the planned times, and counts an answer after
// the deadline.
func TestIdle(t *testing.T) {
	d, f := startedDriver(t, Case{Workload: workIdle, Size: 16, InFlight: 1, Connections: 1})
	require.Len(t, f.sent, 1)
	require.LessOrEqual(t, f.delay, idleInterval)
	f.later[0]()
	require.Len(t, f.sent, 1, "the first message is still in flight")
	d.sessions[0].onAnswer(answerOf(d, 1))
	f.later[1]()
	require.Len(t, f.sent, 2)
	d.deadline = 0
	f.later[2]()
	require.Empty(t, d.done)
	d.sessions[0].onAnswer(answerOf(d, 2))
	require.NoError(t, <-d.done)
	require.EqualValues(t, 2, d.tally.Msgs)
}
