//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxSources is how many sources a receiver remembers; arbitrary. They take about 1
// MiB for each socket, if packets arrive from that many addresses or ports.
const maxSources = 4096

// A udpSource is an address and port from which packets arrive, with what the
// receiver knows about it.
type udpSource struct {
	at     netip.AddrPort
	flow   wire.Flow
	idents wire.IdentWindow // window of the identifications over IPv4
	header ipHeader         // header of the last packet
	kept   bool             // the source is remembered in udpSources
}

// udpSources are the sources that a receiver remembers. The zero value is empty.
type udpSources struct {
	known map[netip.AddrPort]*udpSource
	// new is the source that find last made. It is remembered when one of its packets has
	// proven right.
	candidate udpSource
}

// find returns the source with an address, for packets to a local address. A source
// that is not remembered is valid until the next call.
func (s *udpSources) find(at, local netip.AddrPort) *udpSource {
	if source := s.known[at]; source != nil {
		return source
	}
	// Header fields that a socket does not report have the values that hosts usually
	// send.
	s.candidate = udpSource{at: at, header: ipHeader{from: at.Addr(), port: at.Port(), to: local.Addr(), hopLimit: defaultHopLimit}}
	s.candidate.flow.Set(at, local)
	return &s.candidate
}

// keep remembers a source. If there are too many, it replaces a random one.
func (s *udpSources) keep(source *udpSource) *udpSource {
	if source.kept {
		return source
	}
	if s.known == nil {
		s.known = make(map[netip.AddrPort]*udpSource)
	}
	if len(s.known) == maxSources {
		// A range over a map begins with a random entry.
		for at := range s.known {
			delete(s.known, at)
			break
		}
	}
	kept := new(udpSource)
	*kept = *source
	kept.kept = true
	s.known[source.at] = kept
	return kept
}
