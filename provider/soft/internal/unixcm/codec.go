//go:build linux

package unixcm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A message on the local path is one packet: a header and the private data. Numbers are
// little-endian. Unused fields are zero.
//
//	0  version          8  queue pair number     24  source port
//	1  kind            12  first PSN             26  destination port
//	2  flags           16  Q_Key                 28  source address
//	3  lookup status   20  responder resources   44  destination address
//	4  reject reason   21  initiator depth       60  zero
//	6  length of the   22  retry count           64  GUID of the device
//	   private data    23  RNR retry count       72  number of the shard
//	                                             76  side of the segment
//	                                             80  number of the segment
//	                                             88  private data
const (
	codecVersion = 3
	headerSize   = 88
	// length of the longest message: a DREQ with the largest private data
	maxMessage = headerSize + 220
)

// messageKind is the type of a message. Its value is the attribute of the MAD minus 0x10
// (IBTA vol. 1, 16.7.2).
type messageKind uint8

const (
	kindREQ     messageKind = 0
	kindREJ     messageKind = 2
	kindREP     messageKind = 3
	kindRTU     messageKind = 4
	kindDREQ    messageKind = 5
	kindDREP    messageKind = 6
	kindSIDRREQ messageKind = 7
	kindSIDRREP messageKind = 8
)

func kindOf(m connmgr.Message) messageKind {
	switch m.(type) {
	case *connmgr.REQ:
		return kindREQ
	case *connmgr.REJ:
		return kindREJ
	case *connmgr.REP:
		return kindREP
	case *connmgr.RTU:
		return kindRTU
	case *connmgr.DREQ:
		return kindDREQ
	case *connmgr.DREP:
		return kindDREP
	case *connmgr.SIDRREQ:
		return kindSIDRREQ
	}
	return kindSIDRREP
}

// Bits of the field flags in a message on the local path.
const (
	flagFlowControl = 1 << iota
	flagSRQ
	flagByApplication
	flagUser
	flagPassed
)

func encode(m connmgr.Message) []byte { return encodeTo(make([]byte, maxMessage), m) }

// encodeTo encodes a message into the memory b. The capacity of b must be at least
// maxMessage bytes. See encode.
func encodeTo(b []byte, m connmgr.Message) []byte {
	b = b[:headerSize]
	clear(b)
	b[0], b[1] = codecVersion, byte(kindOf(m))
	var private []byte
	switch m := m.(type) {
	case *connmgr.REQ:
		encodeEndpoints(b, &m.Endpoints)
		encodeQPParams(b, &m.QPParams)
		encodeShared(b, &m.Shared)
		b[22] = m.Retry
		private = m.Private
	case *connmgr.REP:
		encodeQPParams(b, &m.QPParams)
		encodeShared(b, &m.Shared)
		private = m.Private
	case *connmgr.REJ:
		b[2] = flag(m.ByApplication, flagByApplication) | flag(m.UserRefused, flagUser)
		binary.LittleEndian.PutUint16(b[4:], uint16(m.Reason))
		private = m.Private
	case *connmgr.DREQ:
		private = m.Private
	case *connmgr.SIDRREQ:
		encodeEndpoints(b, &m.Endpoints)
		private = m.Private
	case *connmgr.SIDRREP:
		b[2] = flag(m.ByApplication, flagByApplication) | flag(m.UserRefused, flagUser)
		b[3] = byte(m.Status)
		binary.LittleEndian.PutUint32(b[8:], m.QPN)
		binary.LittleEndian.PutUint32(b[16:], m.QKey)
		private = m.Private
	}
	binary.LittleEndian.PutUint16(b[6:], uint16(len(private)))
	return append(b, private...)
}

// flag returns bit if set is true. Otherwise it returns 0.
func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func encodeEndpoints(b []byte, e *connmgr.Endpoints) {
	binary.LittleEndian.PutUint16(b[24:], e.Src.Port())
	binary.LittleEndian.PutUint16(b[26:], e.Dst.Port())
	src, dst := e.Src.Addr().As16(), e.Dst.Addr().As16()
	copy(b[28:], src[:])
	copy(b[44:], dst[:])
}

func encodeQPParams(b []byte, p *connmgr.QPParams) {
	b[2] = flag(p.FlowControl, flagFlowControl) | flag(p.SRQ, flagSRQ)
	binary.LittleEndian.PutUint32(b[8:], p.QPN)
	binary.LittleEndian.PutUint32(b[12:], p.PSN)
	b[20], b[21], b[23] = p.ResponderResources, p.InitiatorDepth, p.RNRRetry
}

func encodeShared(b []byte, s *connmgr.SharedMemory) {
	b[2] |= flag(s.Passed, flagPassed)
	binary.LittleEndian.PutUint64(b[64:], s.Shard.Device)
	binary.LittleEndian.PutUint32(b[72:], s.Shard.Number)
	b[76] = s.Side
	binary.LittleEndian.PutUint64(b[80:], s.Segment)
}

// decode decodes a packet. It checks all fields, because any process may have sent the
// packet. It does not check whether the ID expects such a message. Its errors match
// verbs.ErrProtocol. The result does not refer to the memory of b.
func decode(b []byte) (connmgr.Message, error) {
	switch {
	case len(b) > 0 && b[0] != codecVersion:
		return nil, &versionError{b[0]}
	case len(b) < headerSize:
		return nil, fmt.Errorf("%w: message of %d bytes without a header", verbs.ErrProtocol, len(b))
	}
	m, err := parse(b)
	if err != nil {
		return nil, err
	}
	// A message has exactly one valid encoding. If encode(m) differs from b, then a length, a
	// flag or an unused field of b is wrong.
	var again [maxMessage]byte
	if !bytes.Equal(encodeTo(again[:], m), b) {
		return nil, malformed("layout for kind", uint64(b[1]))
	}
	return m, nil
}

// A versionError reports that the peer's library has another version of the codec. The
// version is the first byte of a message in each of them.
type versionError struct{ got byte }

func (e *versionError) Error() string {
	return fmt.Sprintf("the peer has version %d of the local path, and this process version %d: both need the same version of rdmaloop", e.got, codecVersion)
}

// Unwrap returns verbs.ErrProtocol.
func (e *versionError) Unwrap() error { return verbs.ErrProtocol }

func malformed(field string, value uint64) error {
	return fmt.Errorf("%w: message with invalid %s %d", verbs.ErrProtocol, field, value)
}

// parse decodes a packet and checks the fields of its message type.
func parse(b []byte) (connmgr.Message, error) {
	private := bytes.Clone(b[headerSize:])
	byApplication, user := b[2]&flagByApplication != 0, b[2]&flagUser != 0
	switch kind := messageKind(b[1]); kind {
	case kindREQ:
		m := &connmgr.REQ{Endpoints: parseEndpoints(b), QPParams: parseQPParams(b), Retry: b[22], Private: private, Shared: parseShared(b)}
		return m, checkREQ(m)
	case kindREP:
		m := &connmgr.REP{QPParams: parseQPParams(b), Private: private, Shared: parseShared(b)}
		return m, cmp.Or(checkQPParams(&m.QPParams), checkReplyShared(&m.Shared), checkPrivate(private, cm.TCP, cm.MessageAccept))
	case kindRTU:
		return &connmgr.RTU{}, nil
	case kindREJ:
		reason := cm.RejectReason(binary.LittleEndian.Uint16(b[4:]))
		return &connmgr.REJ{Reason: reason, ByApplication: byApplication, Private: private, UserRefused: user}, checkPrivate(private, cm.TCP, cm.MessageReject)
	case kindDREQ:
		return &connmgr.DREQ{Private: private}, checkPrivate(private, cm.TCP, cm.MessageDisconnect)
	case kindDREP:
		return &connmgr.DREP{}, nil
	case kindSIDRREQ:
		m := &connmgr.SIDRREQ{Endpoints: parseEndpoints(b), Private: private}
		return m, cmp.Or(checkEndpoints(&m.Endpoints), checkPrivate(private, cm.UDP, cm.MessageConnect))
	case kindSIDRREP:
		m := &connmgr.SIDRREP{
			Status: cm.SIDRStatus(b[3]), ByApplication: byApplication, Private: private, UserRefused: user,
			QPN: binary.LittleEndian.Uint32(b[8:]), QKey: binary.LittleEndian.Uint32(b[16:]),
		}
		return m, checkSIDRREP(m)
	default:
		return nil, malformed("kind", uint64(kind))
	}
}

func parseEndpoints(b []byte) connmgr.Endpoints {
	at := func(addr, port []byte) netip.AddrPort {
		ip := netip.AddrFrom16([16]byte(addr)).Unmap()
		return netip.AddrPortFrom(ip, binary.LittleEndian.Uint16(port))
	}
	return connmgr.Endpoints{Src: at(b[28:44], b[24:]), Dst: at(b[44:60], b[26:])}
}

func parseQPParams(b []byte) connmgr.QPParams {
	return connmgr.QPParams{
		QPN: binary.LittleEndian.Uint32(b[8:]), PSN: binary.LittleEndian.Uint32(b[12:]),
		SRQ: b[2]&flagSRQ != 0, FlowControl: b[2]&flagFlowControl != 0,
		ResponderResources: b[20], InitiatorDepth: b[21], RNRRetry: b[23],
	}
}

func parseShared(b []byte) connmgr.SharedMemory {
	return connmgr.SharedMemory{
		Shard: shm.ShardID{Device: binary.LittleEndian.Uint64(b[64:]), Number: binary.LittleEndian.Uint32(b[72:])},
		Side:  b[76], Segment: binary.LittleEndian.Uint64(b[80:]), Passed: b[2]&flagPassed != 0,
	}
}

func checkREQ(m *connmgr.REQ) error {
	if m.Retry > verbs.MaxRetry {
		return malformed("retry count", uint64(m.Retry))
	}
	if m.Shared != (connmgr.SharedMemory{Shard: m.Shared.Shard}) {
		return malformed("segment", m.Shared.Segment)
	}
	if m.Shared.Shard.Number >= shm.MaxShards {
		return malformed("number of a loop", uint64(m.Shared.Shard.Number))
	}
	return cmp.Or(checkEndpoints(&m.Endpoints), checkQPParams(&m.QPParams), checkPrivate(m.Private, cm.TCP, cm.MessageConnect))
}

// checkReplyShared checks the fields Side and Passed in a REP. If Passed is true, the
// sender has made the segment, so its side must be 1.
func checkReplyShared(s *connmgr.SharedMemory) error {
	if s.Side > 1 || s.Passed && s.Side != 1 {
		return malformed("side of the segment", uint64(s.Side))
	}
	if s.Shard.Number >= shm.MaxShards {
		return malformed("number of a loop", uint64(s.Shard.Number))
	}
	return nil
}

func checkSIDRREP(m *connmgr.SIDRREP) error {
	if m.QPN > verbs.MaxQPNum {
		return malformed("queue pair number", uint64(m.QPN))
	}
	return checkPrivate(m.Private, cm.UDP, cm.MessageAccept)
}

func checkEndpoints(e *connmgr.Endpoints) error {
	src, dst := e.Src.Addr(), e.Dst.Addr()
	if src.IsUnspecified() || dst.IsUnspecified() || src.Is4() != dst.Is4() {
		return fmt.Errorf("%w: request from %v to %v, which are unspecified or of different families", verbs.ErrProtocol, src, dst)
	}
	return nil
}

func checkQPParams(p *connmgr.QPParams) error {
	switch {
	case p.QPN > verbs.MaxQPNum:
		return malformed("queue pair number", uint64(p.QPN))
	case p.PSN > verbs.MaxPSN:
		return malformed("PSN", uint64(p.PSN))
	case p.RNRRetry > verbs.MaxRetry:
		return malformed("RNR retry count", uint64(p.RNRRetry))
	}
	return nil
}

func checkPrivate(private []byte, ps cm.PortSpace, m cm.Message) error {
	if len(private) > cm.MaxPrivateData(ps, m) {
		return malformed("private data length", uint64(len(private)))
	}
	return nil
}
