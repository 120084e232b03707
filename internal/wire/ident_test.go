package wire

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A countingSender simulates a sender. Each call returns the identification of the next
// packet and its time.
type countingSender func() (id uint16, at time.Duration)

// unconnectedSender behaves like an unconnected socket. Some messages have one packet,
// and others have several segments.
func unconnectedSender(rng *rand.Rand) countingSender {
	left, next, now := 0, uint16(0), time.Duration(0)
	return func() (uint16, time.Duration) {
		if left == 0 {
			left, next = 1, 0
			if rng.IntN(3) == 0 {
				left = 1 + rng.IntN(64)
			}
			now += time.Duration(rng.IntN(20_000)) * time.Microsecond
		}
		left--
		next++
		return next - 1, now
	}
}

// connectedSender numbers its packets like a connected socket.
func connectedSender(rng *rand.Rand) countingSender {
	left, next, message, now := 0, uint16(0), uint16(rng.Uint32()), time.Duration(0)
	return func() (uint16, time.Duration) {
		if left == 0 {
			left, next = 1, message
			if rng.IntN(3) == 0 {
				left = 1 + rng.IntN(64)
			}
			message++
			now += time.Duration(rng.IntN(50)) * time.Microsecond
		}
		left--
		next++
		return next - 1, now
	}
}

// sharedCounter behaves like a host whose flows share one counter. The function pause()
// returns the idle time before each packet.
func sharedCounter(rng *rand.Rand, tick time.Duration, others int, pause func() time.Duration) countingSender {
	counter, now, stamp := rng.Uint32(), time.Duration(0), time.Duration(0)
	reserve := func() uint16 {
		if passed := now/tick - stamp/tick; passed > 0 {
			counter += uint32(rng.Int64N(int64(passed)))
			stamp = now
		}
		counter++
		return uint16(counter - 1)
	}
	return func() (uint16, time.Duration) {
		wait := pause()
		for range rng.IntN(others + 1) {
			reserve()
		}
		now += wait
		return reserve(), now
	}
}

// constantly returns a function that always returns d.
func constantly(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// randomly returns a function with exponentially distributed results. Their mean is d.
func randomly(rng *rand.Rand, d time.Duration) func() time.Duration {
	return func() time.Duration { return time.Duration(rng.ExpFloat64() * float64(d)) }
}

// senders returns one sender of each kind.
func senders() map[string]countingSender {
	seed := uint64(0)
	rng := func() *rand.Rand { seed++; return rand.New(rand.NewPCG(seed, 2)) }
	return map[string]countingSender{
		"own":               unconnectedSender(rng()),
		"own, connected":    connectedSender(rng()),
		"rxe, 250 ticks":    sharedCounter(rng(), 4*time.Millisecond, 0, constantly(10*time.Microsecond)),
		"rxe, 1000 ticks":   sharedCounter(rng(), time.Millisecond, 0, constantly(10*time.Microsecond)),
		"rxe, many flows":   sharedCounter(rng(), time.Millisecond, 190, constantly(20*time.Microsecond)),
		"rxe, slow":         sharedCounter(rng(), time.Millisecond, 1, constantly(700*time.Microsecond)),
		"rxe, with pauses":  sharedCounter(rng(), time.Millisecond, 3, randomly(rng(), 20*time.Millisecond)),
		"rxe, with minutes": sharedCounter(rng(), 10*time.Millisecond, 0, randomly(rng(), time.Minute)),
	}
}

// clockAt returns a clock that always shows d.
func clockAt(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func TestIdentWindowFitsSenders(t *testing.T) {
	for name, next := range senders() {
		var w IdentWindow
		before := time.Duration(0)
		for i := range 200_000 {
			id, at := next()
			if !w.Fits(id, before, clockAt(at)) {
				require.FailNow(t, "a correct packet does not fit", "%s: packet %d", name, i)
			}
			before = at
		}
		require.Zero(t, w.extraWidth, name)
	}
}

// damage changes each byte that the ICRC covers to each wrong value, and calls check()
// each time.
func damage(p Packet, check func()) {
	for i := range p.bytes {
		if i == 4 {
			// Not covered, because switches may change FECN and BECN here.
			continue
		}
		for change := 1; change < 256; change++ {
			p.bytes[i] ^= byte(change)
			check()
			p.bytes[i] ^= byte(change)
		}
	}
}

// TestNoDamagedBytePasses checks that each packet with one wrong byte is rejected by
// Verify or by the IdentWindow.
func TestNoDamagedBytePasses(t *testing.T) {
	all := senders()
	for _, name := range []string{"own", "own, connected", "rxe, 250 ticks", "rxe, 1000 ticks", "rxe, many flows"} {
		for _, size := range []int{64, 1024} {
			next := all[name]
			var f Flow
			f.Set(netip.MustParseAddrPort("10.0.0.1:49200"), netip.MustParseAddrPort("10.0.0.2:4791"))
			p := Build(make([]byte, SendOnly.Size(size)), SendOnly, size)
			var w IdentWindow
			var id uint16
			since, now := time.Duration(0), time.Duration(0)
			for range 1000 {
				since = now
				id, now = next()
				require.True(t, w.Fits(id, since, clockAt(now)))
			}
			tried, solved, passed := 0, 0, 0
			id, now = next()
			f.Seal(p, id)
			damage(p, func() {
				tried++
				if id, ok := f.Verify(p); ok {
					solved++
					if before := w; before.Fits(id, since, clockAt(now)) {
						passed++
					}
				}
			})
			require.Equal(t, 255*(len(p.bytes)-1), tried)
			require.Zero(t, passed, "%s: %d bytes; Verify accepts %d of %d errors", name, size, solved, tried)
			if size >= 1024 {
				require.GreaterOrEqual(t, solved, 15, "Verify alone accepts these")
			}
		}
	}
}

// TestIdentSlackIsBelowEveryError checks packets with one wrong byte that Verify accepts.
// Verify must find an identification that is wrong by more than identSlack.
func TestIdentSlackIsBelowEveryError(t *testing.T) {
	const size = 4096
	var f Flow
	f.Set(netip.MustParseAddrPort("10.0.0.1:49200"), netip.MustParseAddrPort("10.0.0.2:4791"))
	p := Build(make([]byte, SendOnly.Size(size)), SendOnly, size)
	f.Seal(p, 0)
	nearest, found := 1<<16, 0
	damage(p, func() {
		wrong, ok := f.Verify(p)
		if !ok {
			return
		}
		found++
		for id := range 1 << 16 {
			distance := int(int16(uint16(id) ^ wrong - uint16(id)))
			nearest = min(nearest, max(distance, -distance))
		}
	})
	require.Equal(t, 21, found)
	require.Equal(t, 231, nearest)
	require.Less(t, identSlack, nearest)
}

// TestIdentWindowFollowsJumps simulates a counter that jumps. After a single jump, one
// packet does not fit. If it jumps for every packet, only a few packets do not fit.
func TestIdentWindowFollowsJumps(t *testing.T) {
	var w IdentWindow
	now := time.Duration(0)
	fits := func(id uint16) bool {
		now += time.Microsecond
		return w.Fits(id, now-time.Microsecond, clockAt(now))
	}
	for id := range uint16(100) {
		require.True(t, fits(1000+id))
	}
	require.False(t, fits(30_000), "the counter has jumped")
	require.True(t, fits(30_003))
	require.True(t, fits(30_004))
	require.False(t, fits(50_000), "a damaged packet")
	require.True(t, fits(30_005))
	require.False(t, fits(50_000))
	require.True(t, fits(30_006))
	require.False(t, fits(10))
	require.False(t, fits(20_000))
	require.True(t, fits(60_000), "the third packet in a row is accepted")

	rng := rand.New(rand.NewPCG(1, 2))
	w = IdentWindow{}
	dropped, late := 0, 0
	for i := range 100_000 {
		if !fits(uint16(rng.Uint32())) {
			dropped++
			if i > 50 {
				late++
			}
		}
	}
	require.LessOrEqual(t, dropped, 10*maxMisfits)
	require.Zero(t, late)

	// From here on, the counter does not jump.
	for i := range 20 * narrowAfter {
		require.True(t, fits(uint16(i)))
	}
	require.Zero(t, w.extraWidth)
	require.False(t, fits(40_000))
}

// TestIdentWindowOfUnconnectedSocket sends three packets with identification 0. After
// that, large identifications do not fit, however long the idle time was.
func TestIdentWindowOfUnconnectedSocket(t *testing.T) {
	var w IdentWindow
	now := time.Duration(0)
	fits := func(id uint16) bool {
		now += time.Hour
		return w.Fits(id, now-time.Hour, clockAt(now))
	}
	for _, id := range []uint16{0, 1, 2, 0, 63, 0, 127, 5} {
		require.True(t, fits(id))
	}
	require.False(t, fits(128))
	require.True(t, fits(0))
	require.False(t, fits(20_000))
	require.True(t, fits(20_001), "the address belongs to another sender now")
	require.True(t, fits(50_000), "after an hour every identification fits")
}

// TestDamagedBytesAfterIdleTime counts the damaged packets that pass. After idle time,
// more of them pass.
func TestDamagedBytesAfterIdleTime(t *testing.T) {
	const size = 1024
	var f Flow
	f.Set(netip.MustParseAddrPort("10.0.0.1:49200"), netip.MustParseAddrPort("10.0.0.2:4791"))
	p := Build(make([]byte, SendOnly.Size(size)), SendOnly, size)
	f.Seal(p, 0)
	// The slice changes gets the identifications that Verify finds in damaged packets. As
	// the correct identification is 0, their bits that are set are the wrong bits.
	errors, changes := 0, []uint16{}
	damage(p, func() {
		errors++
		if change, ok := f.Verify(p); ok {
			changes = append(changes, change)
		}
	})
	before := 0
	for _, idle := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		passed := 0
		for id := range 1 << 16 {
			for _, change := range changes {
				w := IdentWindow{started: true, last: identMark{id: uint16(id)}}
				if w.Fits(uint16(id+1)^change, 0, clockAt(idle)) {
					passed++
				}
			}
		}
		rate := float64(passed) / (1 << 16)
		t.Logf("after %v: %.2f of %d errors of one byte pass", idle, rate, errors)
		require.GreaterOrEqual(t, passed, before)
		require.LessOrEqual(t, rate, float64(len(changes)))
		if idle <= time.Millisecond {
			require.Zero(t, passed)
		}
		before = passed
	}
	require.Len(t, changes, 15)
}

// TestIdentWindowOfWrappingSocket simulates a connected socket whose counter overflows.
// All packets must fit.
func TestIdentWindowOfWrappingSocket(t *testing.T) {
	const segments = 64
	var w IdentWindow
	for message := range uint16(400) {
		for segment := range uint16(segments) {
			id := message - 200 + segment
			require.True(t, w.Fits(id, 0, clockAt(0)), "message %d", message)
		}
	}
}
