package wire

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/internal/psn"
)

// UDPPort is the UDP destination port of every RoCEv2 packet. Source: IBTA annex A17.3.2.
const UDPPort = 4791

// Queue pair numbers with a special meaning. Source: IBTA vol. 1, 3.5.3 and 10.5.2.
const (
	// The general services interface, which receives MADs.
	GSIQPN = 1
	// Destination of multicast datagrams.
	MulticastQPN = 0xffffff
)

// DefaultPKey is the partition key that every port has. Source: IBTA annex A17.4.7.
const DefaultPKey = 0xffff

// BTHSize is the length of a BTH in bytes.
const BTHSize = 12

// A BTH is the base transport header. Every packet begins with it. Source: IBTA vol. 1,
// 9.2.
//
//	0   opcode (8)
//	1   solicited event (1) | MigReq (1) | pad count (2) | version (4)
//	2   P_Key (16)
//	4   FECN (1) | BECN (1) | reserved (6)
//	5   destination QP number (24)
//	8   acknowledge request (1) | reserved (7)
//	9   PSN (24)
type BTH [BTHSize]byte

// Opcode returns the operation code.
func (h *BTH) Opcode() Opcode { return Opcode(h[0]) }

// Solicited reports whether the message requests a completion event at the receiver. Only
// the bit in the message's last packet counts.
func (h *BTH) Solicited() bool { return h[1]&0x80 != 0 }

// SetSolicited sets the solicited event bit.
func (h *BTH) SetSolicited(on bool) { setBit(&h[1], 0x80, on) }

// PadCount returns the number of bytes between the payload and the ICRC, 0 to 3.
func (h *BTH) PadCount() int { return int(h[1] >> 4 & 3) }

// Version returns the version of the transport header. Only 0 is valid.
func (h *BTH) Version() uint8 { return h[1] & 0x0f }

// PKey returns the partition key.
func (h *BTH) PKey() uint16 { return binary.BigEndian.Uint16(h[2:]) }

// SetPKey sets the partition key.
func (h *BTH) SetPKey(key uint16) { binary.BigEndian.PutUint16(h[2:], key) }

// DestQP returns the number of the destination queue pair. It has 24 bits.
func (h *BTH) DestQP() uint32 { return uint24(h[5:8]) }

// SetDestQP sets the number of the destination queue pair.
func (h *BTH) SetDestQP(num uint32) { putUint24(h[5:8], num) }

// AckReq reports whether the requester asks for an acknowledgement of this packet.
func (h *BTH) AckReq() bool { return h[8]&0x80 != 0 }

// SetAckReq sets the acknowledge request bit.
func (h *BTH) SetAckReq(on bool) { setBit(&h[8], 0x80, on) }

// PSN returns the packet sequence number.
func (h *BTH) PSN() psn.Value { return psn.Value(uint24(h[9:12])) }

// SetPSN sets the packet sequence number.
func (h *BTH) SetPSN(v psn.Value) { putUint24(h[9:12], uint32(v)) }

// PKeysMatch reports whether two ports may communicate, given a partition key of each.
// The partition numbers must be equal, and at least one port must be a full member.
// Source: IBTA vol. 1, 10.9.3.
func PKeysMatch(a, b uint16) bool {
	const full = 0x8000
	return (a^b)&^full == 0 && (a|b)&full != 0 && a&^full != 0
}

func setBit(b *byte, bit byte, on bool) {
	*b &^= bit
	if on {
		*b |= bit
	}
}

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func putUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }
