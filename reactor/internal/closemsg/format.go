// Package closemsg has the format of the private data with which a connection tells its peer
// why it ends. All numbers are in network byte order:
//
//	8 bytes    magic
//	1 byte     version
//	1 byte     kind
//	1 byte     0
//	1 byte     length of the text
//	4 bytes    code of the application
//	4 bytes    CRC-32 (IEEE) of the bytes before and of the text
//	0 to 200   text of the application
//
// Zeros may follow, because connection managers pad private data. Peers that do not use this
// library send other private data, or none. The checksum finds out that data was cut and then
// padded.
package closemsg

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	magic   = "rdmaloop"
	version = 1

	// MaxText is the length in bytes of the longest text.
	MaxText = 200
	// MaxSize is the size in bytes of the longest message.
	MaxSize = textOffset + MaxText

	versionOffset = len(magic)
	kindOffset    = versionOffset + 1
	zeroOffset    = kindOffset + 1
	lengthOffset  = zeroOffset + 1
	codeOffset    = lengthOffset + 1
	sumOffset     = codeOffset + 4
	textOffset    = sumOffset + 4
)

// A Message says why a connection ends.
type Message struct {
	Kind uint8
	Code uint32
	Text string // at most MaxText bytes
}

// AppendTo appends the encoded message to b.
func (m *Message) AppendTo(b []byte) []byte {
	begin := len(b)
	b = append(b, magic...)
	b = append(b, version, m.Kind, 0, byte(len(m.Text)))
	b = binary.BigEndian.AppendUint32(b, m.Code)
	b = append(b, 0, 0, 0, 0)
	b = append(b, m.Text...)
	own := b[begin:]
	binary.BigEndian.PutUint32(own[sumOffset:], checksum(own))
	return b
}

// Decode decodes the private data of a peer. It accepts what AppendTo has made, with zeros
// behind it. For other data ok is false.
func Decode(b []byte) (m Message, ok bool) {
	if len(b) < textOffset || string(b[:versionOffset]) != magic || b[versionOffset] != version || b[zeroOffset] != 0 {
		return Message{}, false
	}
	end := textOffset + int(b[lengthOffset])
	if end > MaxSize || len(b) < end || binary.BigEndian.Uint32(b[sumOffset:]) != checksum(b[:end]) {
		return Message{}, false
	}
	for _, padding := range b[end:] {
		if padding != 0 {
			return Message{}, false
		}
	}
	return Message{Kind: b[kindOffset], Code: binary.BigEndian.Uint32(b[codeOffset:]), Text: string(b[textOffset:end])}, true
}

// checksum returns the checksum of an encoded message.
func checksum(message []byte) uint32 {
	sum := crc32.ChecksumIEEE(message[:sumOffset])
	return crc32.Update(sum, crc32.IEEETable, message[textOffset:])
}
