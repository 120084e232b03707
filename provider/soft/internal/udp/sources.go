//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxSources is the largest number of remembered sources. They take about 1 MiB for each
// socket. Arbitrary.
const maxSources = 4096

// A source is the address and port of a sender, and what the receiver remembers about
// it.
type source struct {
	at     netip.AddrPort
	flow   wire.Flow
	idents wire.IdentWindow // window of recent IP identifications; used over IPv4
	header Header           // header of the packet received last from the source
	// true if sources.known has this source
	kept bool
}

// A sources is the set of sources that a receiver remembers. The zero value is empty.
type sources struct {
	known map[netip.AddrPort]*source
	// a new source that has sent no valid packet
	candidate source
}

// find returns the source of packets from the address remote. A new source is valid
// until the next call of find().
func (s *sources) find(remote, local netip.AddrPort) *source {
	if source := s.known[remote]; source != nil {
		return source
	}
	// The usual values of header fields that the kernel does not report.
	s.candidate = source{at: remote, header: Header{From: remote.Addr(), To: local.Addr(), HopLimit: DefaultHopLimit}}
	if remote.Port() != local.Port() {
		s.candidate.header.Socket = remote.Port()
	}
	s.candidate.flow.Set(remote, local)
	return &s.candidate
}

// keep remembers a source after a valid packet, and returns the remembered source. If
// there are maxSources sources, keep() forgets a random one.
func (s *sources) keep(src *source) *source {
	if src.kept {
		return src
	}
	if s.known == nil {
		s.known = make(map[netip.AddrPort]*source)
	}
	if len(s.known) == maxSources {
		// Go begins to iterate over a map at a random entry.
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
