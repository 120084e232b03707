//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxSources is how many senders a receiver remembers; arbitrary. That is about 1 MiB
// for each socket, if somebody sends from as many addresses or ports.
const maxSources = 4096

// A udpSource is an address and port that packets come from, and what is known of
// them.
type udpSource struct {
	at     netip.AddrPort
	flow   wire.Flow
	idents wire.IdentWindow // over IPv4
	header arrival          // of the last packet
	kept   bool             // among the sources of the receiver
}

// udpSources are the sources that a receiver knows. The zero value knows none.
type udpSources struct {
	known map[netip.AddrPort]*udpSource
	new   udpSource // the one at hand, until its first packet is found to be right
}

// find returns the source of an address, for packets to a local one. One that is not
// known is valid until the next call.
func (s *udpSources) find(at, local netip.AddrPort) *udpSource {
	if source := s.known[at]; source != nil {
		return source
	}
	// What a socket does not tell of a header is taken for what hosts send mostly.
	s.new = udpSource{at: at, header: arrival{from: at.Addr(), to: local.Addr(), hopLimit: defaultHopLimit}}
	s.new.flow.Set(at, local)
	return &s.new
}

// keep makes a source a known one, in the place of another if there are too many.
func (s *udpSources) keep(source *udpSource) *udpSource {
	if source.kept {
		return source
	}
	if s.known == nil {
		s.known = make(map[netip.AddrPort]*udpSource)
	}
	if len(s.known) == maxSources {
		for at := range s.known { // A range over a map begins with a random entry.
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
