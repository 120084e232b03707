//go:build linux

package access

import (
	"math"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

func accessLimitForTest() (a *ErrorLimit, now *time.Time) {
	now = new(time.Time)
	*now = time.Unix(1_000_000, 0)
	a = NewErrorLimit(new(counters.Set))
	a.Clock = func() time.Time { return *now }
	return a, now
}

// After several errors a source has to wait. Each wait is twice as long as the last.
func TestAccessErrorsMakeASourceWait(t *testing.T) {
	a, now := accessLimitForTest()
	bad, good := RemoteSource(netip.MustParseAddr("10.0.0.1")), RemoteSource(netip.MustParseAddr("10.0.0.2"))
	for range freeAccessErrors {
		a.CountError(bad)
		require.False(t, a.Refuses(bad))
	}
	var waits []time.Duration
	for range 12 {
		a.CountError(bad)
		a.CountError(bad) // An error during the wait does not prolong it.
		require.False(t, a.Refuses(good))
		begin := *now
		for a.Refuses(bad) {
			*now = now.Add(time.Second / 2)
		}
		waits = append(waits, now.Sub(begin))
	}
	for i, wait := range waits {
		require.Equal(t, min(minAccessWait<<i, maxAccessWait), wait)
	}
	require.Positive(t, a.counts.Load(counters.AccessRefused))

	*now = now.Add(accessRecordTTL)
	a.CountError(bad)
	require.False(t, a.Refuses(bad), "the record has expired")
}

// An ErrorLimit has at most maxAccessSources records. When it removes records to make
// room, it keeps the record of a source that has to wait.
func TestAccessSourcesAreBounded(t *testing.T) {
	a, now := accessLimitForTest()
	bad := LocalSource(math.MaxUint32-1, 0)
	for range freeAccessErrors + 1 {
		a.CountError(bad)
	}
	const further = 50 // Each makes a search in all records.
	for i := range maxAccessSources + further {
		*now = now.Add(time.Microsecond)
		a.CountError(RemoteSource(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})))
		require.LessOrEqual(t, len(a.sources), maxAccessSources)
	}
	require.True(t, a.Refuses(bad))
	*now = now.Add(2 * accessRecordTTL)
	a.CountError(bad)
	require.Len(t, a.sources, 1, "the expired records are removed")
}

// Several networks of one site share the limit of access errors.
func TestAccessErrorsOfASite(t *testing.T) {
	a, _ := accessLimitForTest()
	network := func(i int) Source {
		b := netip.MustParseAddr("2001:db8::1").As16()
		b[6], b[7] = byte(i>>8), byte(i)
		return RemoteSource(netip.AddrFrom16(b))
	}
	guesses := 0
	for i := range 16 * maxAccessSources {
		for range freeAccessErrors {
			if !a.Refuses(network(i)) {
				guesses++
				a.CountError(network(i))
			}
		}
	}
	require.Equal(t, freeAccessErrors+1, guesses)
	require.Len(t, a.sources, 1)
	require.False(t, a.Refuses(RemoteSource(netip.MustParseAddr("2001:db8:1::1"))), "the address belongs to another site")
}

func TestAccessSources(t *testing.T) {
	at := func(s string) Source { return RemoteSource(netip.MustParseAddr(s)) }
	require.Equal(t, at("10.0.0.1"), at("::ffff:10.0.0.1"))
	require.NotEqual(t, at("10.0.0.1"), at("10.0.0.2"))
	require.Equal(t, at("2001:db8::1"), at("2001:db8::ffff:1"), "both addresses belong to one network")
	require.Equal(t, at("2001:db8::1"), at("2001:db8:0:1::1"), "both addresses belong to one site")
	require.NotEqual(t, at("2001:db8::1"), at("2001:db8:1::1"))
	own, other := uint32(os.Geteuid()), uint32(os.Geteuid())+1
	require.NotEqual(t, LocalSource(own, 1), LocalSource(own, 2))
	require.Equal(t, LocalSource(other, 1), LocalSource(other, 2), "the processes of another user are one source")
	require.NotEqual(t, LocalSource(other, 1), LocalSource(other+1, 1))
}

// TestViolationsAreLimitedInRate checks how many connections a source gets that violates
// the protocol on each.
func TestViolationsAreLimitedInRate(t *testing.T) {
	a, now := accessLimitForTest()
	bad, good := RemoteSource(netip.MustParseAddr("10.0.0.1")), RemoteSource(netip.MustParseAddr("10.0.0.2"))
	violations := func() (n int) {
		for ; !a.Refuses(bad); n++ {
			a.CountViolation(bad)
		}
		return n
	}
	require.Equal(t, freeViolations, violations())
	require.False(t, a.Refuses(good))
	for range 100 {
		*now = now.Add(violationInterval)
		require.Equal(t, 1, violations())
	}
	*now = now.Add(freeViolations * violationInterval)
	require.Equal(t, freeViolations, violations())
	require.Len(t, a.sources, 1)
	for range 10_000 { // on connections that were opened before
		a.CountViolation(bad)
	}
	*now = now.Add(maxViolationWait - 1)
	require.True(t, a.Refuses(bad))
	*now = now.Add(1)
	require.False(t, a.Refuses(bad))
}

// TestViolationsAreNoGuesses checks that violations and wrong keys do not add up, and
// that a violation does not make the record of wrong keys expire.
func TestViolationsAreNoGuesses(t *testing.T) {
	a, now := accessLimitForTest()
	s := RemoteSource(netip.MustParseAddr("10.0.0.1"))
	for range freeAccessErrors {
		a.CountError(s)
		a.CountViolation(s)
		require.False(t, a.Refuses(s))
	}
	*now = now.Add(accessRecordTTL - time.Second)
	a.CountViolation(s)
	require.False(t, a.Refuses(s))
	a.CountError(s)
	require.True(t, a.Refuses(s), "this is the first error behind the free ones")
}
