package wire

// An Ident is bytes 4 to 7 of an IPv4 header: the identification (16), the flags
// (3) and the fragment offset (13), see RFC 791, 3.1. The ICRC covers them, and
// a UDP socket shows them to nobody. For IPv6 it is of no account.
//
// What a socket sends is known all the same: where it is not connected and its
// IP_MTU_DISCOVER is IP_PMTUDISC_DO, the identification is 0 and fragmentation is
// forbidden; segment i of a UDP_SEGMENT call has the identification i.
type Ident uint32

// dontFragment is the DF flag with everything else zero.
const dontFragment Ident = 0x4000

// NewIdent is the identification id, fragmentation being forbidden.
func NewIdent(id uint16) Ident { return Ident(id)<<16 | dontFragment }

// ID is the identification.
func (i Ident) ID() uint16 { return uint16(i >> 16) }

// plausible reports whether the packet can have travelled in one piece.
func (i Ident) plausible() bool {
	flags := i & 0xffff
	return flags == dontFragment || flags == 0
}
