package nvme

import "encoding/binary"

// Identifiers of log pages. Source: Base, 5.16.1.
const (
	LogErrors     = 0x01
	LogSMART      = 0x02
	LogFirmware   = 0x03
	LogNamespaces = 0x04 // namespaces that have changed
	LogEffects    = 0x05
	LogDiscovery  = 0x70
)

// A LogRequest is the part of a log page that the command Get Log Page asks for.
type LogRequest struct {
	ID     uint8
	Offset uint64 // offset of the part in the log page, in bytes
	Len    uint64 // length of the part in bytes, a multiple of 4
}

// LogRequest decodes the fields of the command Get Log Page. Source: Base, 5.16.
func (c Command) LogRequest() LogRequest {
	words := uint64(c.Uint16(44))<<16 | uint64(c.Uint16(42))
	return LogRequest{ID: c.Uint8(40), Offset: c.Uint64(48), Len: (words + 1) * 4}
}

// LogEffectsSize is the length in bytes of the log page of command effects.
const LogEffectsSize = 4096

// AppendEffects appends the log page of command effects to b, of LogEffectsSize bytes.
// The parameters are the opcodes that the admin queue and the I/O queues support.
func AppendEffects(b []byte, admin, io []uint8) []byte {
	at := len(b)
	b = append(b, make([]byte, LogEffectsSize)...)
	for _, op := range admin {
		b[at+4*int(op)] = 1
	}
	for _, op := range io {
		b[at+1024+4*int(op)] = 1
	}
	return b
}

// discoveryEntrySize is the length in bytes of the header and of each entry of the
// discovery log.
const discoveryEntrySize = 1024

// A DiscoveryEntry names a subsystem and the address at which hosts reach it. Source:
// Base, 5.16.1.23.
type DiscoveryEntry struct {
	IPv6      bool
	Port      uint16 // identifier of the port of the subsystem
	Service   string // TCP port number in decimal digits
	Address   string // IP address in text form
	Subsystem string // NQN of the subsystem
	MaxAdmin  uint16 // largest size of the admin queue
}

// AppendDiscoveryLog appends the discovery log page to b: a header and the entries. The
// parameter generation changes whenever the entries change.
func AppendDiscoveryLog(b []byte, generation uint64, entries []DiscoveryEntry) []byte {
	at := len(b)
	b = append(b, make([]byte, discoveryEntrySize*(1+len(entries)))...)
	binary.LittleEndian.PutUint64(b[at:], generation)
	binary.LittleEndian.PutUint64(b[at+8:], uint64(len(entries)))
	for i := range entries {
		entries[i].put(b[at+discoveryEntrySize*(1+i):])
	}
	return b
}

// put stores the entry in d.
func (e *DiscoveryEntry) put(d []byte) {
	const rdma, ipv4, ipv6, nvmSubsystem = 1, 1, 2, 2
	d[0], d[1], d[2] = rdma, ipv4, nvmSubsystem
	if e.IPv6 {
		d[1] = ipv6
	}
	binary.LittleEndian.PutUint16(d[4:], e.Port)
	binary.LittleEndian.PutUint16(d[6:], AnyController)
	binary.LittleEndian.PutUint16(d[8:], e.MaxAdmin)
	putText(d[32:64], e.Service)
	copy(d[256:256+MaxNQN], e.Subsystem)
	putText(d[512:768], e.Address)
	const reliableConnection, infiniband, connectionManager = 1, 1, 1
	d[768], d[769], d[770] = reliableConnection, infiniband, connectionManager
}
