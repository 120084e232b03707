//go:build linux

package madcm

import (
	"hash/maphash"
	"net/netip"
	"time"
)

// A provenSources remembers sources whose address was validated not long ago; see
// addrValidation. In a flood from forged addresses, their requests go before those of
// sources that have not shown anything yet. The multiplexer's lock guards it.
//
// A keyed hash of the source selects its entry, so the memory is fixed, and a stranger
// can not choose an address that takes the entry of another one.
type provenSources struct {
	seed    maphash.Seed
	entries [provenEntries]provenSource
}

// A provenSource is a source whose address was validated last at a time.
type provenSource struct {
	hash uint64
	at   time.Time
}

// The numbers are arbitrary. The entries take 128 KiB.
const (
	provenEntries = 4096
	provenTime    = 10 * time.Minute
)

func newProvenSources() *provenSources { return &provenSources{seed: maphash.MakeSeed()} }

// add records that the address of a source was validated.
func (p *provenSources) add(from netip.Addr, now time.Time) {
	hash := hashSource(p.seed, from)
	p.entries[hash%provenEntries] = provenSource{hash, now}
}

// has reports whether an address of the source was validated in the last provenTime.
func (p *provenSources) has(from netip.Addr, now time.Time) bool {
	hash := hashSource(p.seed, from)
	e := &p.entries[hash%provenEntries]
	return e.hash == hash && !e.at.IsZero() && now.Sub(e.at) < provenTime
}
