//go:build linux

package udp

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxSources is how many sources a receiver remembers; arbitrary. They take about 1
// MiB for each socket, if packets arrive from that many addresses or ports.
const maxSources = 4096

// A source is an address and port from which packets arrive, and what the receiver knows
// about it.
type source struct {
	at     netip.AddrPort
	flow   wire.Flow
	idents wire.IdentWindow // window of the identifications over IPv4
	header Header           // header of the last packet
	kept   bool             // the source is remembered in sources
}

// sources are the sources that a receiver remembers. The zero value is empty.
type sources struct {
	known map[netip.AddrPort]*source
	// candidate is the source that find has made last. It is remembered when one of its
	// packets is valid.
	candidate source
}

// find returns the source with an address, for packets to a local address. A source
// that is not remembered is valid until the next call.
func (s *sources) find(at, local netip.AddrPort) *source {
	if source := s.known[at]; source != nil {
		return source
	}
	// Header fields that a socket does not report have the values that hosts usually
	// send.
	s.candidate = source{at: at, header: Header{From: at.Addr(), To: local.Addr(), HopLimit: DefaultHopLimit}}
	s.candidate.flow.Set(at, local)
	return &s.candidate
}

// keep remembers a source. If there are too many, it replaces a random one.
func (s *sources) keep(from *source) *source {
	if from.kept {
		return from
	}
	if s.known == nil {
		s.known = make(map[netip.AddrPort]*source)
	}
	if len(s.known) == maxSources {
		// A range over a map begins with a random entry.
		for at := range s.known {
			delete(s.known, at)
			break
		}
	}
	kept := new(source)
	*kept = *from
	kept.kept = true
	s.known[from.at] = kept
	return kept
}
