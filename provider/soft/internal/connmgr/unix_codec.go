//go:build linux

package connmgr

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
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
	codecVersion = 2
	headerSize   = 88
	// length of the longest message: a REP with the largest private data
	maxMessage = headerSize + 196
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

func kindOf(m message) messageKind {
	switch m.(type) {
	case *reqMsg:
		return kindREQ
	case *rejMsg:
		return kindREJ
	case *repMsg:
		return kindREP
	case *rtuMsg:
		return kindRTU
	case *dreqMsg:
		return kindDREQ
	case *drepMsg:
		return kindDREP
	case *sidrReqMsg:
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

func encode(m message) []byte { return encodeTo(make([]byte, maxMessage), m) }

// encodeTo encodes a message into the memory b. The capacity of b must be at least
// maxMessage bytes. See encode.
func encodeTo(b []byte, m message) []byte {
	b = b[:headerSize]
	clear(b)
	b[0], b[1] = codecVersion, byte(kindOf(m))
	var private []byte
	switch m := m.(type) {
	case *reqMsg:
		encodeEndpoints(b, &m.endpoints)
		encodeQPParams(b, &m.qpParams)
		encodeShared(b, &m.shared)
		b[22] = m.retry
		private = m.private
	case *repMsg:
		encodeQPParams(b, &m.qpParams)
		encodeShared(b, &m.shared)
		private = m.private
	case *rejMsg:
		b[2] = flag(m.byApplication, flagByApplication) | flag(m.userRefused, flagUser)
		binary.LittleEndian.PutUint16(b[4:], uint16(m.reason))
		private = m.private
	case *sidrReqMsg:
		encodeEndpoints(b, &m.endpoints)
		private = m.private
	case *sidrRepMsg:
		b[2] = flag(m.byApplication, flagByApplication) | flag(m.userRefused, flagUser)
		b[3] = byte(m.status)
		binary.LittleEndian.PutUint32(b[8:], m.qpn)
		binary.LittleEndian.PutUint32(b[16:], m.qkey)
		private = m.private
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

func encodeEndpoints(b []byte, e *endpoints) {
	binary.LittleEndian.PutUint16(b[24:], e.src.Port())
	binary.LittleEndian.PutUint16(b[26:], e.dst.Port())
	src, dst := e.src.Addr().As16(), e.dst.Addr().As16()
	copy(b[28:], src[:])
	copy(b[44:], dst[:])
}

func encodeQPParams(b []byte, p *qpParams) {
	b[2] = flag(p.flowControl, flagFlowControl) | flag(p.srq, flagSRQ)
	binary.LittleEndian.PutUint32(b[8:], p.qpn)
	binary.LittleEndian.PutUint32(b[12:], p.psn)
	b[20], b[21], b[23] = p.responderResources, p.initiatorDepth, p.rnrRetry
}

func encodeShared(b []byte, s *sharedMemory) {
	b[2] |= flag(s.passed, flagPassed)
	binary.LittleEndian.PutUint64(b[64:], s.shard.Device)
	binary.LittleEndian.PutUint32(b[72:], s.shard.Number)
	b[76] = s.side
	binary.LittleEndian.PutUint64(b[80:], s.segment)
}

// decode decodes a packet. It checks all fields, because any process may have sent the
// packet. It does not check whether the ID expects such a message. Its errors match
// verbs.ErrProtocol. The result does not refer to the memory of b.
func decode(b []byte) (message, error) {
	if len(b) < headerSize || b[0] != codecVersion {
		return nil, fmt.Errorf("%w: message of %d bytes without a header of version %d", verbs.ErrProtocol, len(b), codecVersion)
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

func malformed(field string, value uint64) error {
	return fmt.Errorf("%w: message with invalid %s %d", verbs.ErrProtocol, field, value)
}

// parse decodes a packet and checks the fields of its message type.
func parse(b []byte) (message, error) {
	private := bytes.Clone(b[headerSize:])
	byApplication, user := b[2]&flagByApplication != 0, b[2]&flagUser != 0
	switch kind := messageKind(b[1]); kind {
	case kindREQ:
		m := &reqMsg{endpoints: parseEndpoints(b), qpParams: parseQPParams(b), retry: b[22], private: private, shared: parseShared(b)}
		return m, checkREQ(m)
	case kindREP:
		m := &repMsg{qpParams: parseQPParams(b), private: private, shared: parseShared(b)}
		return m, cmp.Or(checkQPParams(&m.qpParams), checkReplyShared(&m.shared), checkPrivate(private, cm.TCP, cm.MessageAccept))
	case kindRTU:
		return &rtuMsg{}, nil
	case kindREJ:
		reason := cm.RejectReason(binary.LittleEndian.Uint16(b[4:]))
		return &rejMsg{reason: reason, byApplication: byApplication, private: private, userRefused: user}, checkPrivate(private, cm.TCP, cm.MessageReject)
	case kindDREQ:
		return &dreqMsg{}, nil
	case kindDREP:
		return &drepMsg{}, nil
	case kindSIDRREQ:
		m := &sidrReqMsg{parseEndpoints(b), private}
		return m, cmp.Or(checkEndpoints(&m.endpoints), checkPrivate(private, cm.UDP, cm.MessageConnect))
	case kindSIDRREP:
		m := &sidrRepMsg{
			status: cm.SIDRStatus(b[3]), byApplication: byApplication, private: private, userRefused: user,
			qpn: binary.LittleEndian.Uint32(b[8:]), qkey: binary.LittleEndian.Uint32(b[16:]),
		}
		return m, checkSIDRREP(m)
	default:
		return nil, malformed("kind", uint64(kind))
	}
}

func parseEndpoints(b []byte) endpoints {
	at := func(addr, port []byte) netip.AddrPort {
		ip := netip.AddrFrom16([16]byte(addr)).Unmap()
		return netip.AddrPortFrom(ip, binary.LittleEndian.Uint16(port))
	}
	return endpoints{src: at(b[28:44], b[24:]), dst: at(b[44:60], b[26:])}
}

func parseQPParams(b []byte) qpParams {
	return qpParams{
		qpn: binary.LittleEndian.Uint32(b[8:]), psn: binary.LittleEndian.Uint32(b[12:]),
		srq: b[2]&flagSRQ != 0, flowControl: b[2]&flagFlowControl != 0,
		responderResources: b[20], initiatorDepth: b[21], rnrRetry: b[23],
	}
}

func parseShared(b []byte) sharedMemory {
	return sharedMemory{
		shard: shm.ShardID{Device: binary.LittleEndian.Uint64(b[64:]), Number: binary.LittleEndian.Uint32(b[72:])},
		side:  b[76], segment: binary.LittleEndian.Uint64(b[80:]), passed: b[2]&flagPassed != 0,
	}
}

func checkREQ(m *reqMsg) error {
	if m.retry > verbs.MaxRetry {
		return malformed("retry count", uint64(m.retry))
	}
	if m.shared != (sharedMemory{shard: m.shared.shard}) {
		return malformed("segment", m.shared.segment)
	}
	if m.shared.shard.Number >= shm.MaxShards {
		return malformed("number of a loop", uint64(m.shared.shard.Number))
	}
	return cmp.Or(checkEndpoints(&m.endpoints), checkQPParams(&m.qpParams), checkPrivate(m.private, cm.TCP, cm.MessageConnect))
}

// checkReplyShared checks the fields side and passed in a REP. If passed is true, the sender
// has made the segment, so its side must be 1.
func checkReplyShared(s *sharedMemory) error {
	if s.side > 1 || s.passed && s.side != 1 {
		return malformed("side of the segment", uint64(s.side))
	}
	if s.shard.Number >= shm.MaxShards {
		return malformed("number of a loop", uint64(s.shard.Number))
	}
	return nil
}

func checkSIDRREP(m *sidrRepMsg) error {
	if m.qpn > verbs.MaxQPNum {
		return malformed("queue pair number", uint64(m.qpn))
	}
	return checkPrivate(m.private, cm.UDP, cm.MessageAccept)
}

func checkEndpoints(e *endpoints) error {
	src, dst := e.src.Addr(), e.dst.Addr()
	if src.IsUnspecified() || dst.IsUnspecified() || src.Is4() != dst.Is4() {
		return fmt.Errorf("%w: request from %v to %v, which are unspecified or of different families", verbs.ErrProtocol, src, dst)
	}
	return nil
}

func checkQPParams(p *qpParams) error {
	switch {
	case p.qpn > verbs.MaxQPNum:
		return malformed("queue pair number", uint64(p.qpn))
	case p.psn > verbs.MaxPSN:
		return malformed("PSN", uint64(p.psn))
	case p.rnrRetry > verbs.MaxRetry:
		return malformed("RNR retry count", uint64(p.rnrRetry))
	}
	return nil
}

func checkPrivate(private []byte, ps cm.PortSpace, m cm.Message) error {
	if len(private) > cm.MaxPrivateData(ps, m) {
		return malformed("private data length", uint64(len(private)))
	}
	return nil
}
