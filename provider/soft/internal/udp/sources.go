//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxSources is the largest number of remembered sources, about 1 MiB for each socket.
// Arbitrary.
const maxSources = 4096

// A source is an address and port of a sender, with the receiver's state for it.
type source struct {
	at     netip.AddrPort
	flow   wire.Flow
	idents wire.IdentWindow // recent identifications over IPv4
	header Header           // header of the packet received last from the source
	// The source is an entry of sources.known, and not the candidate.
	kept bool
}

// A sources has the sources that a receiver remembers. The zero value has none.
type sources struct {
	known map[netip.AddrPort]*source
	// candidate is a new source, which has sent no valid packet yet.
	candidate source
}

// find returns the source of packets between two addresses. A new source is valid until
// the next call of find().
func (s *sources) find(remote, local netip.AddrPort) *source {
	if source := s.known[remote]; source != nil {
		return source
	}
	// The kernel may not report all header fields. These are the usual values.
	s.candidate = source{at: remote, header: Header{From: remote.Addr(), To: local.Addr(), HopLimit: DefaultHopLimit}}
	if remote.Port() != local.Port() {
		s.candidate.header.Socket = remote.Port()
	}
	s.candidate.flow.Set(remote, local)
	return &s.candidate
}

// keep adds a source to known after a valid packet, and returns its entry. If known is
// full, keep() removes a random source.
func (s *sources) keep(src *source) *source {
	if src.kept {
		return src
	}
	if s.known == nil {
		s.known = make(map[netip.AddrPort]*source)
	}
	if len(s.known) == maxSources {
		// An iteration over a map begins with a random entry.
		for at := range s.known {
			delete(s.known, at)
			break
		}
	}
	kept := new(source)
	*kept = *src
	kept.kept = true
	s.known[src.at] = kept
	return kept
}
