package wire

import "errors"

// MaxPayload is the length of the longest payload in bytes. It is the largest path MTU.
const MaxPayload = 4096

// ICRCSize is the length of the ICRC in bytes.
const ICRCSize = 4

// MaxPacket is the length of the longest packet in bytes. That packet is a WRITE_ONLY_IMM
// with MaxPayload.
const MaxPacket = BTHSize + RETHSize + ImmDtSize + MaxPayload + ICRCSize

// Errors of Decode.
var (
	// ErrLength means that the packet's length is impossible or not allowed for its
	// opcode.
	ErrLength = errors.New("wire: invalid packet length")
	// ErrVersion means that the version of the transport header is not 0.
	ErrVersion = errors.New("wire: unknown transport header version")
	// ErrOpcode means that this package does not define the opcode.
	ErrOpcode = errors.New("wire: unknown opcode")
)

// A Packet is a packet in the caller's slice. Its length has been checked.
//
// Each header has a method. If the opcode does not have the header, the method returns
// nil.
//
// The struct has one field only, so the compiler passes it in registers.
type Packet struct {
	bytes []byte // bytes of the packet from the BTH to the ICRC
}

// Decode checks a received packet and returns a Packet that refers to b. The error is
// ErrLength, ErrVersion or ErrOpcode. After an error, the caller drops the packet.
// Source: IBTA vol. 1, 9.6.
//
// Decode does not check the ICRC: see Flow.Verify. It does not check the path MTU: see
// Opcode.FitsPayload.
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

// Build begins a packet in b. Its payload has the given length in bytes. Build sets the
// opcode, the pad count and DefaultPKey, and clears the pad and all other fields. Then
// the caller writes the headers and the payload, and calls Flow.Seal.
//
// Build panics if the opcode does not allow the length, or if b is too short.
func Build(b []byte, op Opcode, payload int) Packet {
	if op.Kind() == KindUnknown || !op.allows(payload) {
		panic("wire: invalid opcode or payload length")
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

// Bytes returns the whole packet, from the BTH to the ICRC.
func (p Packet) Bytes() []byte { return p.bytes }

// BTH returns the base transport header.
func (p Packet) BTH() *BTH { return (*BTH)(p.bytes) }

// Opcode returns the operation code.
func (p Packet) Opcode() Opcode { return Opcode(p.bytes[0]) }

// Payload returns the payload. The pad is not included.
func (p Packet) Payload() []byte {
	return p.bytes[p.Opcode().headerSize() : len(p.bytes)-ICRCSize-p.BTH().PadCount()]
}

// DETH returns the datagram extended transport header.
func (p Packet) DETH() *DETH {
	if !p.has(hasDETH) {
		return nil
	}
	return (*DETH)(p.bytes[BTHSize:])
}

// RETH returns the RDMA extended transport header. A READ request and the first packet of
// a WRITE have it.
func (p Packet) RETH() *RETH {
	if !p.has(hasRETH) {
		return nil
	}
	return (*RETH)(p.bytes[BTHSize:])
}

// AtomicETH returns the header of an atomic request.
func (p Packet) AtomicETH() *AtomicETH {
	if !p.has(hasAtomicETH) {
		return nil
	}
	return (*AtomicETH)(p.bytes[BTHSize:])
}

// AETH returns the ACK extended transport header. All responses except
// READ_RESPONSE_MIDDLE have it.
func (p Packet) AETH() *AETH {
	if !p.has(hasAETH) {
		return nil
	}
	return (*AETH)(p.bytes[BTHSize:])
}

// AtomicAckETH returns the header of the response to an atomic request.
func (p Packet) AtomicAckETH() *AtomicAckETH {
	if !p.has(hasAtomicAckETH) {
		return nil
	}
	return (*AtomicAckETH)(p.bytes[BTHSize+AETHSize:])
}

// ImmDt returns the header with the immediate data.
func (p Packet) ImmDt() *ImmDt {
	if !p.has(hasImm) {
		return nil
	}
	return (*ImmDt)(p.bytes[p.Opcode().headerSize()-ImmDtSize:])
}

// IETH returns the header of a SEND that invalidates a memory region.
func (p Packet) IETH() *IETH {
	if !p.has(hasIETH) {
		return nil
	}
	return (*IETH)(p.bytes[p.Opcode().headerSize()-IETHSize:])
}

// allows reports whether the opcode allows this payload length for some path MTU.
func (o Opcode) allows(payload int) bool {
	return payload == 0 || payload > 0 && payload <= MaxPayload && formats[o].payload != payloadNone
}

func (p Packet) has(h headerSet) bool { return formats[p.Opcode()].headers&h != 0 }
