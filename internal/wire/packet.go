package wire

import "errors"

// MaxPayload is the longest payload of a packet in bytes: the largest path MTU.
const MaxPayload = 4096

// ICRCSize is the length of the ICRC in bytes.
const ICRCSize = 4

// MaxPacket is the length in bytes of the longest packet there is, from the BTH
// to the ICRC: a WRITE_ONLY_IMM.
const MaxPacket = BTHSize + RETHSize + ImmDtSize + MaxPayload + ICRCSize

// Errors of Decode.
var (
	// ErrLength: the packet is too short for its headers, too long for any
	// path, or has a payload where there is none.
	ErrLength = errors.New("wire: packet of a wrong length")
	// ErrVersion: the version of the transport header is not 0.
	ErrVersion = errors.New("wire: packet of an unknown version")
	// ErrOpcode: the opcode is none of those in this package.
	ErrOpcode = errors.New("wire: packet with an unknown opcode")
)

// A Packet is a packet whose lengths are known to be right: a view into bytes
// that belong to whoever gave them to Decode or Build.
//
// Asked for a header that its opcode does not have, it returns nil.
//
// It goes through many hands, and is a slice and no more: the compiler keeps what
// has more than four words in memory, and copies it there for each of them.
type Packet struct {
	bytes []byte // from the BTH to the ICRC
}

// Decode returns a view of the packet that b is, the payload of one UDP
// datagram; or ErrLength, ErrVersion or ErrOpcode, on which it is to be dropped
// without an answer (IBTA vol. 1, 9.6). It does not look at the ICRC, for which
// see Flow.Verify, nor at what needs the queue pair to judge: the keys, and
// whether the payload suits the path MTU, see Opcode.FitsPayload.
func Decode(b []byte) (Packet, error) {
	if len(b) < BTHSize+ICRCSize || len(b)%4 != 0 {
		return Packet{}, ErrLength
	}
	bth := (*BTH)(b)
	if bth.Version() != 0 {
		return Packet{}, ErrVersion
	}
	op := bth.Opcode()
	if op.Kind() == KindUnknown {
		return Packet{}, ErrOpcode
	}
	if !op.allows(len(b) - op.headerSize() - bth.PadCount() - ICRCSize) {
		return Packet{}, ErrLength
	}
	return Packet{b}, nil
}

// Build lays out a packet with so many bytes of payload at the beginning of b:
// opcode, pad count and DefaultPKey are set, the other fields of the headers
// and the pad are zero. The caller fills in the headers and Payload, which holds
// what was there before, and ends with Flow.Seal.
//
// The opcode must be one of this package's, the payload not longer than
// MaxPayload, and b not shorter than Opcode.Size; Build panics otherwise.
func Build(b []byte, op Opcode, payload int) Packet {
	if op.Kind() == KindUnknown || !op.allows(payload) {
		panic("wire: no such packet")
	}
	pad := pad(payload)
	p := Packet{b[:op.Size(payload):len(b)]}
	clear(p.bytes[:op.headerSize()])
	clear(p.bytes[len(p.bytes)-ICRCSize-pad:])
	p.bytes[0] = byte(op)
	p.bytes[1] = byte(pad << 4)
	p.BTH().SetPKey(DefaultPKey)
	return p
}

// Bytes is the whole packet, from the BTH to the ICRC.
func (p Packet) Bytes() []byte { return p.bytes }

// BTH is the base transport header.
func (p Packet) BTH() *BTH { return (*BTH)(p.bytes) }

// Opcode says what the packet is.
func (p Packet) Opcode() Opcode { return Opcode(p.bytes[0]) }

// Payload is what the packet carries, without the pad.
func (p Packet) Payload() []byte {
	return p.bytes[p.Opcode().headerSize() : len(p.bytes)-ICRCSize-p.BTH().PadCount()]
}

// DETH is the header of datagrams.
func (p Packet) DETH() *DETH {
	if !p.has(hasDETH) {
		return nil
	}
	return (*DETH)(p.bytes[BTHSize:])
}

// RETH is the header of READ requests, and of the first packet of a WRITE.
func (p Packet) RETH() *RETH {
	if !p.has(hasRETH) {
		return nil
	}
	return (*RETH)(p.bytes[BTHSize:])
}

// AtomicETH is the header of atomic requests.
func (p Packet) AtomicETH() *AtomicETH {
	if !p.has(hasAtomicETH) {
		return nil
	}
	return (*AtomicETH)(p.bytes[BTHSize:])
}

// AETH is the header of responses, but for those in the middle of a READ.
func (p Packet) AETH() *AETH {
	if !p.has(hasAETH) {
		return nil
	}
	return (*AETH)(p.bytes[BTHSize:])
}

// AtomicAckETH is what the responses to atomic requests have besides.
func (p Packet) AtomicAckETH() *AtomicAckETH {
	if !p.has(hasAtomicAckETH) {
		return nil
	}
	return (*AtomicAckETH)(p.bytes[BTHSize+AETHSize:])
}

// ImmDt is the immediate data.
func (p Packet) ImmDt() *ImmDt {
	if !p.has(hasImm) {
		return nil
	}
	return (*ImmDt)(p.bytes[p.Opcode().headerSize()-ImmDtSize:])
}

// IETH is the header of a SEND with invalidate.
func (p Packet) IETH() *IETH {
	if !p.has(hasIETH) {
		return nil
	}
	return (*IETH)(p.bytes[p.Opcode().headerSize()-IETHSize:])
}

// allows reports whether the payload can be that long on any path.
func (o Opcode) allows(payload int) bool {
	return payload == 0 || payload > 0 && payload <= MaxPayload && formats[o].payload != payloadNone
}

func (p Packet) has(h headerSet) bool { return formats[p.Opcode()].headers&h != 0 }
