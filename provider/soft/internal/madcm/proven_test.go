//go:build linux

package madcm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
