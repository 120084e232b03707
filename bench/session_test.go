package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fakeTransport is a loop that runs everything at once, and connections that
// keep what is sent.
type fakeTransport struct {
	sent    []uint64
	room    int           // messages that still fit
	later   []func()      // of after
	delay   time.Duration // of the last after
	refused error
	hungUp  int
}

func (f *fakeTransport) post(g func()) error { g(); return nil }

func (f *fakeTransport) after(d time.Duration, g func()) {
	f.delay = d
	f.later = append(f.later, g)
}

func (f *fakeTransport) dial(s *session) error {
	if f.refused == nil {
		s.opened(f)
	}
	return f.refused
}

func (f *fakeTransport) hangUp(s *session) { f.hungUp++; s.closed(nil) }

func (f *fakeTransport) Close() error { return nil }

func (f *fakeTransport) carry(n uint64) error {
	if f.room == 0 {
		return errBlocked
	}
	f.room--
	f.sent = append(f.sent, n)
	return nil
}

// started is a driver in the middle of a phase that would take long.
func started(t *testing.T, c Case) (*driver, *fakeTransport) {
	f := &fakeTransport{room: 1000}
	d := newDriver(&spec{Case: c})
	d.lib = f
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
	d, f := started(t, Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 1})
	require.Equal(t, []uint64{1}, f.sent)
	d.sessions[0].answered(answerOf(d, 1))
	require.Equal(t, []uint64{1, 2}, f.sent)
	d.deadline = 0
	d.sessions[0].answered(answerOf(d, 2))
	require.Len(t, f.sent, 2, "it is over")
	require.NoError(t, <-d.done)
	require.EqualValues(t, 2, d.tally.Msgs)
	require.EqualValues(t, 2, d.tally.Times.TotalCount())
}

// A stream keeps its window full, and ends when no answer is due.
func TestStream(t *testing.T) {
	d, f := started(t, Case{Workload: workStream, Size: 64, InFlight: 32, Connections: 1})
	s := d.sessions[0]
	require.Len(t, f.sent, 32)
	s.answered(answerOf(d, 8))
	require.Len(t, f.sent, 40)
	d.deadline = 0
	for n := uint64(16); n <= 40; n += 8 {
		require.Empty(t, d.done)
		s.answered(answerOf(d, n))
	}
	require.NoError(t, <-d.done)
	require.EqualValues(t, 40, d.tally.Msgs)
	require.Zero(t, d.tally.Times.TotalCount())
}

// What found no room is sent when there is some, each message once.
func TestBlocked(t *testing.T) {
	d, f := started(t, Case{Workload: workStream, Size: 64, InFlight: 1, Connections: 1})
	s := d.sessions[0]
	f.room = 0
	s.answered(answerOf(d, 1))
	require.Equal(t, []uint64{1}, f.sent)
	f.room = 5
	s.writable()
	s.writable()
	require.Equal(t, []uint64{1, 2}, f.sent)
}

func TestWrongAnswers(t *testing.T) {
	for name, answer := range map[string]func(*driver) []byte{
		"another message": func(d *driver) []byte { return answerOf(d, 2) },
		"short":           func(d *driver) []byte { return answerOf(d, 1)[:8] },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := started(t, Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 1})
			d.sessions[0].answered(answer(d))
			require.ErrorContains(t, <-d.done, "did not return message 1")
		})
	}
}

func TestLostConnection(t *testing.T) {
	d, _ := started(t, Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 1})
	d.sessions[0].closed(errors.New("why"))
	require.ErrorContains(t, <-d.done, "why")
}

func TestRefusedConnection(t *testing.T) {
	d := newDriver(&spec{Case: Case{Workload: workPingPong, Size: 16, InFlight: 1, Connections: 2}})
	d.lib = &fakeTransport{refused: errors.New("why")}
	require.ErrorContains(t, d.open(), "why")
}

// Of many connections one has something to do, or all.
func TestConnections(t *testing.T) {
	c := Case{Workload: workConnsIdle, Size: 16, InFlight: 1, Connections: 5}
	_, f := started(t, c)
	require.Len(t, f.sent, 1)
	c.Workload = workConnsActive
	d, f := started(t, c)
	require.Len(t, f.sent, 5)
	d.deadline = 0
	for _, s := range d.sessions {
		require.Empty(t, d.done)
		s.answered(answerOf(d, 1))
	}
	require.NoError(t, <-d.done)
}

// Each connection carries one message; the next one begins anew.
func TestConnect(t *testing.T) {
	d, f := started(t, Case{Workload: workConnect, Size: 16, InFlight: 1, Connections: 1})
	d.sessions[0].answered(answerOf(d, 1))
	require.Equal(t, []uint64{1, 1}, f.sent)
	d.deadline = 0
	d.sessions[0].answered(answerOf(d, 1))
	require.Equal(t, 2, f.hungUp)
	require.NoError(t, <-d.done)
	require.EqualValues(t, 2, d.tally.Msgs)
}

// A message is sent when it is due; one that is late puts off the next, and
// counts also when time is over.
func TestIdle(t *testing.T) {
	d, f := started(t, Case{Workload: workIdle, Size: 16, InFlight: 1, Connections: 1})
	require.Len(t, f.sent, 1)
	require.LessOrEqual(t, f.delay, idleInterval)
	f.later[0]()
	require.Len(t, f.sent, 1, "the first is still on its way")
	d.sessions[0].answered(answerOf(d, 1))
	f.later[1]()
	require.Len(t, f.sent, 2)
	d.deadline = 0
	f.later[2]()
	require.Empty(t, d.done)
	d.sessions[0].answered(answerOf(d, 2))
	require.NoError(t, <-d.done)
	require.EqualValues(t, 2, d.tally.Msgs)
}
