//go:build linux

package connmgr

import (
	"encoding/binary"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// Wants implements udp.GSISink. It returns false for a request that receiveRequest would
// drop because there is no room for its source, and for a request that would be refused
// without an answer because of the answerLimit. Nothing in the packet was checked yet, so
// Wants changes nothing.
//
// All other messages pass, because they cost little more than the search for their
// connection. So do requests that concern a connection: the peer may not have got the
// answer to the first copy, or may use its queue pair again.
func (mux lockedMux) Wants(p wire.Packet, from, to netip.Addr) bool {
	m, err := wire.DecodeMAD(p.Payload())
	if err != nil || p.Opcode() != wire.UDSendOnly || !isRequest(m) || mux.concernsConn(m, from) {
		return true
	}
	// The service ID has the same place in both requests (IBTA vol. 1, 12.6.5, 12.11.1).
	service := wire.ServiceID(binary.BigEndian.Uint64(m[wire.MADDataOffset+8:]))
	_, port, _ := service.Port()
	source, lookup := access.SourceOf(from), m.Attribute() == wire.AttrSIDRREQ
	l, _ := mux.listenerFor(service, netip.AddrPortFrom(to, port))
	if l == nil || !lookup && mux.sources.fullForGood(source) {
		return !mux.limit.exhausted(from, mux.clock())
	}
	return l.hasRoom(source, lookup)
}

// concernsConn reports whether the request m is a copy of one that has an ID, or names
// the queue pair of a connection.
func (mux *madMux) concernsConn(m *wire.MAD, from netip.Addr) bool {
	if m.Attribute() == wire.AttrSIDRREQ {
		return mux.lookups[lookupKey{from, firstID(m)}] != nil
	}
	// Offsets of the GUID and of the queue pair (IBTA vol. 1, 12.6.5).
	guid := binary.BigEndian.Uint64(m[wire.MADDataOffset+16:])
	qpn := binary.BigEndian.Uint32(m[wire.MADDataOffset+32:]) >> 8
	return mux.byPeer[peerKey{from, guid, firstID(m)}] != nil || mux.byQP[peerKey{from, guid, qpn}] != nil
}

var _ udp.GSISink = lockedMux{}
