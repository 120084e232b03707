// Package pcapng reads capture files in tests, and checks the packets of RoCEv2 in them. It
// shares no code with the package that writes the files, and none with package wire.
//
// Source: draft-ietf-opsawg-pcapng; IBTA vol. 1, 7.8.1, and annex A17.3.3.
package pcapng

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// A Packet is one packet of a file, from its IP header.
type Packet struct {
	Interface string // name of the interface
	Outbound  bool   // true for a packet that was sent, false for one that was received
	Time      uint64 // nanoseconds since 1970
	Length    int    // length in bytes of the whole packet; Data may be shorter
	Data      []byte
}

// Stats are the statistics of an interface.
type Stats struct{ Received, Dropped uint64 }

// A File is the contents of a file, which may have several sections.
type File struct {
	Packets []Packet
	Stats   map[string]Stats // the last ones, by the name of the interface
}

var errShort = errors.New("pcapng: truncated block")

// Read decodes a file.
func Read(b []byte) (*File, error) {
	f := &File{Stats: make(map[string]Stats)}
	var names []string
	for len(b) > 0 {
		if len(b) < 12 {
			return nil, errShort
		}
		kind, size := le32(b), int(le32(b[4:]))
		if size < 12 || size%4 != 0 || size > len(b) || int(le32(b[size-4:])) != size {
			return nil, fmt.Errorf("pcapng: block of type %#x with the length %d", kind, size)
		}
		body := b[8 : size-4]
		b = b[size:]
		var err error
		switch kind {
		case 0x0a0d0d0a:
			names = nil
			if len(body) < 16 || le32(body) != 0x1a2b3c4d || le32(body[4:]) != 1 {
				err = errors.New("pcapng: section that is not of version 1.0 and little-endian")
			}
		case 1:
			names, err = readInterface(names, body)
		case 5:
			err = f.readStats(names, body)
		case 6:
			err = f.readPacket(names, body)
		default:
			err = fmt.Errorf("pcapng: block of type %#x", kind)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

func readInterface(names []string, body []byte) ([]string, error) {
	if len(body) < 8 || binary.LittleEndian.Uint16(body) != 101 {
		return nil, errors.New("pcapng: interface whose packets do not begin with an IP header")
	}
	o := options(body[8:])
	if !slices.Equal(o[9], []byte{9}) || len(o[2]) == 0 {
		return nil, errors.New("pcapng: interface without a name, or without times in nanoseconds")
	}
	return append(names, string(o[2])), nil
}

func (f *File) readStats(names []string, body []byte) error {
	if len(body) < 12 || int(le32(body)) >= len(names) {
		return errShort
	}
	o := options(body[12:])
	if len(o[4]) != 8 || len(o[5]) != 8 {
		return errors.New("pcapng: statistics without counters")
	}
	f.Stats[names[le32(body)]] = Stats{binary.LittleEndian.Uint64(o[4]), binary.LittleEndian.Uint64(o[5])}
	return nil
}

func (f *File) readPacket(names []string, body []byte) error {
	if len(body) < 20 || int(le32(body)) >= len(names) {
		return errShort
	}
	kept, length := int(le32(body[12:])), int(le32(body[16:]))
	if kept > length || kept > len(body)-20 {
		return errShort
	}
	o := options(body[20+(kept+3)&^3:])
	if len(o[2]) != 4 || le32(o[2]) != 1 && le32(o[2]) != 2 {
		return errors.New("pcapng: packet without a direction")
	}
	f.Packets = append(f.Packets, Packet{
		Interface: names[le32(body)], Outbound: le32(o[2]) == 2, Time: uint64(le32(body[4:]))<<32 | uint64(le32(body[8:])),
		Length: length, Data: body[20 : 20+kept],
	})
	return nil
}

// options returns the values of options by their codes.
func options(b []byte) map[uint16][]byte {
	o := make(map[uint16][]byte)
	for len(b) >= 4 {
		code, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		if code == 0 || len(b) < 4+n {
			break
		}
		o[code] = b[4 : 4+n]
		b = b[min(len(b), 4+(n+3)&^3):]
	}
	return o
}

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// CheckRoCE checks the lengths in the headers of a whole packet of RoCEv2, the checksum of its
// IPv4 header or of UDP over IPv6, and its ICRC. The parameter port is the UDP destination
// port.
func (p *Packet) CheckRoCE(port uint16) error {
	d := slices.Clone(p.Data)
	if len(d) != p.Length || len(d) < 20+8+16 {
		return fmt.Errorf("a packet with %d of %d bytes", len(d), p.Length)
	}
	ones := func(from, to int) {
		for i := from; i < to; i++ {
			d[i] = 0xff
		}
	}
	be16 := func(at int) int { return int(binary.BigEndian.Uint16(d[at:])) }
	ip := 20
	switch {
	case d[0] == 0x45:
		if sum := add(0, d[:ip]); sum != 0xffff || be16(2) != len(d) || d[9] != 17 {
			return fmt.Errorf("IPv4 header % x with the checksum %#x, length %d", d[:ip], sum, len(d))
		}
		ones(1, 2)   // type of service
		ones(8, 9)   // time to live
		ones(10, 12) // checksum
	case d[0]>>4 == 6:
		ip = 40
		if be16(4) != len(d)-ip || d[6] != 17 {
			return fmt.Errorf("IPv6 header % x, length %d", d[:ip], len(d))
		}
		if sum := add(uint32(len(d)-ip+17), d[8:]); sum != 0xffff {
			return fmt.Errorf("UDP checksum off by %#x", sum)
		}
		d[0] = 0x6f // traffic class
		ones(1, 4)  // traffic class and flow label
		ones(7, 8)  // hop limit
	default:
		return fmt.Errorf("IP header that begins with %#x", d[0])
	}
	if be16(ip+2) != int(port) || be16(ip+4) != len(d)-ip {
		return fmt.Errorf("UDP header % x, length %d", d[ip:ip+8], len(d)-ip)
	}
	ones(ip+6, ip+8)     // UDP checksum
	ones(ip+8+4, ip+8+5) // FECN, BECN and reserved bits of the BTH
	sum := crc32.ChecksumIEEE(append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, d[:len(d)-4]...))
	if got := le32(d[len(d)-4:]); got != sum {
		return fmt.Errorf("ICRC %08x instead of %08x, in % x", got, sum, p.Data)
	}
	return nil
}

// add adds bytes to a sum of the Internet checksum (RFC 1071).
func add(sum uint32, b []byte) uint16 {
	for i, c := range b {
		sum += uint32(c) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
