package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// CMAHeaderSize is the length in bytes of a CMAHeader.
const CMAHeaderSize = 36

// A CMAHeader contains the IP addresses of a connection request. The private data of a
// REQ or SIDRREQ begins with it. Source: IBTA annex A11.4.
//
//	0   version, 0 (8)
//	1   IP version (4) | zero (4)
//	2   source port (16)
//	4   source address (128); an IPv4 address is in the last 32 bits, after zeros
//	20  destination address (128)
type CMAHeader struct {
	SrcPort  uint16
	Src, Dst netip.Addr
}

// ErrCMAHeader means that the private data does not begin with a valid CMAHeader.
var ErrCMAHeader = errors.New("wire: no header of the RDMA IP CM service")

// Encode writes the header to the beginning of the private data, and returns the space
// after it. The private data must have at least CMAHeaderSize bytes. Both addresses must
// be of the same family. Zones are dropped.
func (h *CMAHeader) Encode(private []byte) []byte {
	head := (*[CMAHeaderSize]byte)(private)
	*head = [CMAHeaderSize]byte{}
	binary.BigEndian.PutUint16(head[2:], h.SrcPort)
	if h.Src.Is4() && h.Dst.Is4() {
		head[1] = 4 << 4
		*(*[4]byte)(head[16:]), *(*[4]byte)(head[32:]) = h.Src.As4(), h.Dst.As4()
	} else {
		head[1] = 6 << 4
		*(*[16]byte)(head[4:]), *(*[16]byte)(head[20:]) = h.Src.As16(), h.Dst.As16()
	}
	return private[CMAHeaderSize:]
}

// Decode reads the header from the beginning of the private data, and returns the
// application's data after it. The private data must have at least CMAHeaderSize bytes.
// The error is ErrCMAHeader. The caller checks the addresses.
func (h *CMAHeader) Decode(private []byte) ([]byte, error) {
	head := (*[CMAHeaderSize]byte)(private)
	if head[0] != 0 {
		return nil, ErrCMAHeader
	}
	switch head[1] >> 4 {
	case 4:
		h.Src, h.Dst = netip.AddrFrom4([4]byte(head[16:])), netip.AddrFrom4([4]byte(head[32:]))
	case 6:
		h.Src, h.Dst = netip.AddrFrom16([16]byte(head[4:])), netip.AddrFrom16([16]byte(head[20:]))
	default:
		return nil, ErrCMAHeader
	}
	h.SrcPort = binary.BigEndian.Uint16(head[2:])
	return private[CMAHeaderSize:], nil
}
