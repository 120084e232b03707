//go:build linux

package madcm

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A tableTest sends requests to a halfOpenTable. It has its own clock.
type tableTest struct {
	*testing.T
	table halfOpenTable
	now   time.Time
}

func newTableTest(t *testing.T, most, mostPerSource int) *tableTest {
	return &tableTest{
		T: t, now: time.Unix(1000, 0),
		table: newHalfOpenTable(most, mostPerSource),
	}
}

func testSource(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// ask sends a request from a source. It returns the half-open connection that was
// accepted and the one that was evicted. Each of them may be nil.
func (t *tableTest) ask(source int) (accepted, victim *halfOpen) {
	t.Helper()
	t.now = t.now.Add(time.Millisecond)
	victim, ok := t.table.room(testSource(source), false, t.now)
	if !ok {
		require.Nil(t, victim)
		return nil, nil
	}
	if victim != nil {
		require.True(t, t.table.remove(victim))
	}
	accepted = &halfOpen{}
	t.table.add(accepted, testSource(source), t.now)
	return accepted, victim
}

// In a flood from forged addresses, the connection of a proven source is not evicted for
// graceTime.
func TestHalfOpenSparesProven(t *testing.T) {
	s := newTableTest(t, 4, 4)
	proven, _ := s.ask(0)
	proven.proven = true
	for n := 1; n <= int(graceTime/time.Millisecond)+4; n++ {
		age := s.now.Sub(proven.since) + time.Millisecond
		_, victim := s.ask(n)
		require.Equal(t, age > graceTime, victim == proven, "after %v", age)
		if victim == proven {
			return
		}
	}
	require.Fail(t, "the connection is never evicted")
}

// If the table is full, a request evicts the oldest connection of the source with the
// most connections.
func TestHalfOpenEvictsTheBusiest(t *testing.T) {
	s := newTableTest(t, 4, 4)
	quiet, _ := s.ask(1)
	busy, _ := s.ask(2)
	second, _ := s.ask(2)
	s.ask(3)
	s.now = s.now.Add(burstTime)
	_, victim := s.ask(4)
	require.Same(t, busy, victim)
	// Each source now has one connection. The oldest connection is that of source 1.
	_, victim = s.ask(5)
	require.Same(t, quiet, victim)
	_, victim = s.ask(6)
	require.Same(t, second, victim)
}

// Requests of other sources do not evict a connection of a burst before burstTime has
// passed.
func TestHalfOpenSparesTheYoung(t *testing.T) {
	s := newTableTest(t, 16, 16)
	var older, young []*halfOpen
	for source := range 8 {
		h, _ := s.ask(source)
		older = append(older, h)
	}
	s.now = s.now.Add(burstTime)
	for range 8 {
		h, _ := s.ask(100)
		young = append(young, h)
	}
	for i := range older {
		_, victim := s.ask(200 + i)
		require.Same(t, older[i], victim)
	}
	s.now = s.now.Add(burstTime)
	_, victim := s.ask(300)
	require.Same(t, young[0], victim)
}

// If a source has more than burstSize young connections, requests of other sources evict
// the oldest of them at once.
func TestHalfOpenBurstIsBounded(t *testing.T) {
	s := newTableTest(t, 2*burstSize, 2*burstSize)
	for source := range burstSize - 1 {
		s.ask(source)
	}
	s.now = s.now.Add(burstTime)
	first, _ := s.ask(100)
	for range burstSize {
		s.ask(100)
	}
	_, victim := s.ask(200)
	require.Same(t, first, victim)
}

// If a source has reached its limit, its next request evicts the source's oldest
// connection only if that connection is older than graceTime. Otherwise the request is
// dropped.
func TestHalfOpenOwnSource(t *testing.T) {
	s := newTableTest(t, 8, 3)
	oldest, _ := s.ask(1)
	s.ask(1)
	s.ask(1)
	accepted, _ := s.ask(1)
	require.Nil(t, accepted, "the source has reached its limit")
	s.now = s.now.Add(graceTime)
	accepted, victim := s.ask(1)
	require.NotNil(t, accepted)
	require.Same(t, oldest, victim)

	full := newTableTest(t, 2, 2)
	full.ask(1)
	full.ask(2)
	accepted, _ = full.ask(2)
	require.Nil(t, accepted, "the table is full, and no source has more connections than this one")
	accepted, _ = full.ask(3)
	require.NotNil(t, accepted)
}

// A request is dropped if its source has MaxConnsPerAddress connections. The source's
// oldest half-open connection is evicted if it is older than graceTime.
func TestHalfOpenSourceFull(t *testing.T) {
	s := newTableTest(t, 2, 2)
	s.ask(1)
	oldest, _ := s.ask(2)
	_, ok := s.table.room(testSource(3), true, s.now.Add(2*graceTime))
	require.False(t, ok)
	victim, ok := s.table.room(testSource(2), true, s.now)
	require.False(t, ok)
	require.Nil(t, victim)
	victim, ok = s.table.room(testSource(2), true, s.now.Add(2*graceTime))
	require.False(t, ok)
	require.Same(t, oldest, victim)
}

// A request is dropped while too many connections wait for their eviction.
func TestHalfOpenEvictionsPending(t *testing.T) {
	s := newTableTest(t, 2, 2)
	s.table.evicting = 2
	accepted, _ := s.ask(1)
	require.Nil(t, accepted)
}

// The counts in a table are correct after connections were added and removed at random.
func TestHalfOpenCounts(t *testing.T) {
	const most, mostPerSource = 50, 9
	s := newTableTest(t, most, mostPerSource)
	rng := rand.New(rand.NewPCG(1, 2))
	live := make(map[*halfOpen]bool)
	for range 2000 {
		if rng.IntN(3) == 0 {
			for h := range live {
				require.True(t, s.table.remove(h))
				require.False(t, s.table.remove(h))
				delete(live, h)
				break
			}
		}
		accepted, victim := s.ask(rng.IntN(1 + rng.IntN(100)))
		if delete(live, victim); accepted != nil {
			live[accepted] = true
		}
		require.Equal(t, len(live), s.table.total)
		require.LessOrEqual(t, len(live), most)
		sum := 0
		for i, source := range s.table.busiest {
			sum += source.count
			if source.count < 1 || source.count > min(mostPerSource, s.table.busiest[0].count) || source.index != i {
				require.FailNow(t, "wrong source", "source %d: %+v", i, source)
			}
		}
		require.Equal(t, len(live), sum)
		require.Len(t, s.table.sources, len(s.table.busiest))
	}
	for h := range live {
		s.table.remove(h)
	}
	require.Empty(t, s.table.sources)
	require.Empty(t, s.table.busiest)
}

// A source is full when the total number of its half-open and validated connections
// reaches the limit.
func TestSourceCounts(t *testing.T) {
	s, source, other := newSourceCounts(2), testSource(1), testSource(2)
	s.opened(source)
	s.validated(source)
	require.False(t, s.full(source))
	s.opened(source)
	require.True(t, s.full(source))
	require.False(t, s.full(other))
	require.False(t, s.fullForGood(source), "one of the connections is half-open")
	s.validated(source)
	require.True(t, s.fullForGood(source))
	s.released(source, true)
	s.opened(source)
	s.released(source, false)
	require.Equal(t, sourceConns{open: 1, validated: 1}, s.conns[source])
	s.released(source, true)
	require.Empty(t, s.conns)
}

func TestProvenSources(t *testing.T) {
	p, now := newProvenSources(), time.Unix(1_000_000, 0)
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff")
	require.False(t, p.has(a, now))
	p.add(a, now)
	require.True(t, p.has(b, now), "both addresses belong to one network")
	require.False(t, p.has(a, now.Add(provenTime)))

	// An entry belongs to one source, so no other address has its rights.
	found := 0
	for n := range 16 * provenEntries {
		if p.has(testSource(n), now) {
			found++
		}
	}
	require.Zero(t, found)
	for n := range provenEntries {
		p.add(testSource(n), now)
		require.True(t, p.has(testSource(n), now))
	}
}

// The answerLimit limits the rate of answers to one source, and the rate of all answers.
func TestAnswerLimit(t *testing.T) {
	l := newAnswerLimit()
	now := time.Unix(1000, 0)
	allowed := func(source, tries int) (n int) {
		for range tries {
			if l.allow(testSource(source), now) {
				n++
			}
		}
		return n
	}
	require.Equal(t, answersPerAddress, allowed(1, 10*answersPerAddress))
	require.True(t, l.allow(testSource(2), now))
	now = now.Add(time.Second / 2)
	require.InDelta(t, answersPerAddress/2, allowed(1, 10*answersPerAddress), 1)

	now = now.Add(time.Hour)
	sum := 0
	for source := range 10 * answersPerSecond {
		sum += allowed(source, 1)
	}
	require.Equal(t, answersPerSecond, sum)
	require.Zero(t, testing.AllocsPerRun(100, func() { l.allow(testSource(1), now) }))
}
