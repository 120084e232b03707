package rsocket

import "encoding/binary"

// HelloSize is the length of an encoded Hello in bytes.
const HelloSize = 40

// version is the version of the protocol.
const version = 1

// Bits of the byte flags of an encoded Hello.
const (
	flagBigEndian = 1 << iota // Hello.BigEndian
	flagMappings              // the number of mappings is valid
)

// A Hello describes the memory of one side. Each side sends its Hello at the beginning of
// the private data: the dialing side in the connection request, and the accepting side in
// the reply. The numbers in an encoded Hello are big endian:
//
//	 0  version (8), 1
//	 1  flags (8)
//	 2  credits (16)
//	 4  reserved (24)
//	 7  number of mappings (8)
//	 8  table of segments: address (64), key (32), number of segments (32)
//	24  first segment: address (64), key (32), length in bytes (32)
type Hello struct {
	// BigEndian is true if the numbers in the table of the sender of the Hello are big
	// endian.
	BigEndian bool
	Credits   uint16 // number of data messages that the peer may send at first
	Table     Table  // table of the sender of the Hello
	First     Segment
}

// AppendTo appends the encoded Hello to b. The number of mappings is 0, because this side
// has no memory that the peer can map (riomap in rsocket(7)).
func (h *Hello) AppendTo(b []byte) []byte {
	flags := byte(flagMappings)
	if h.BigEndian {
		flags |= flagBigEndian
	}
	b = append(b, version, flags)
	b = binary.BigEndian.AppendUint16(b, h.Credits)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, h.Table.Addr)
	b = binary.BigEndian.AppendUint32(b, h.Table.Key)
	b = binary.BigEndian.AppendUint32(b, h.Table.Entries)
	b = binary.BigEndian.AppendUint64(b, h.First.Addr)
	b = binary.BigEndian.AppendUint32(b, h.First.Key)
	return binary.BigEndian.AppendUint32(b, h.First.Length)
}

// DecodeHello decodes the Hello of the peer at the beginning of its private data, and
// returns the rest of the private data. The rest may be padded with zeros. The error
// matches ErrVersion or ErrProtocol.
func DecodeHello(private []byte) (h Hello, rest []byte, err error) {
	switch {
	case len(private) < HelloSize:
		return h, nil, violation("the private data has %d bytes instead of at least %d", len(private), HelloSize)
	case private[0] != version:
		return h, nil, &versionError{private[0]}
	}
	h.BigEndian = private[1]&flagBigEndian != 0
	h.Credits = binary.BigEndian.Uint16(private[2:])
	h.Table = Table{
		Addr:    binary.BigEndian.Uint64(private[8:]),
		Key:     binary.BigEndian.Uint32(private[16:]),
		Entries: binary.BigEndian.Uint32(private[20:]),
	}
	h.First = Segment{
		Addr:   binary.BigEndian.Uint64(private[24:]),
		Key:    binary.BigEndian.Uint32(private[32:]),
		Length: binary.BigEndian.Uint32(private[36:]),
	}
	if h.Table.Entries == 0 {
		return h, nil, violation("the table has no segments")
	}
	return h, private[HelloSize:], nil
}
