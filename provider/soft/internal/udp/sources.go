//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxSources is the largest number of sources that a receiver remembers. It is arbitrary.
// So many sources take about 1 MiB for each socket.
const maxSources = 4096

// A source is an address and port from which packets arrive, with the state of the
// receiver for it.
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
	// candidate is the source that find has created last. It is not in known yet. When a
	// packet from it turns out to be valid, keep copies it into known.
	candidate source
}

// find returns the source with the address remote, for packets to the address local. If
// the receiver does not remember that source, find creates one, which is valid until the
// next call of find.
func (s *sources) find(remote, local netip.AddrPort) *source {
	if source := s.known[remote]; source != nil {
		return source
	}
	// The kernel may not report all fields of a packet's IP header. For fields that are
	// not reported, the values here remain. They are the values that hosts usually send.
	s.candidate = source{at: remote, header: Header{From: remote.Addr(), To: local.Addr(), HopLimit: DefaultHopLimit}}
	s.candidate.flow.Set(remote, local)
	return &s.candidate
}

// keep adds a source to known, unless it is there already, and returns the entry. If
// known is full, keep removes a random other source. It is called only for a source from
// which a valid packet has arrived.
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
