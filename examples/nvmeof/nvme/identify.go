package nvme

import (
	"encoding/binary"
	"math/bits"
)

// IdentifySize is the length in bytes of every structure of the command Identify.
const IdentifySize = 4096

// IdentifyCNSAt is the offset of the field CNS of the command Identify, 8 bits. It names
// the structure that the host wants. Source: Base, 5.17.
const IdentifyCNSAt = 40

// Structures of the command Identify.
const (
	IdentifyNamespace   = 0x00
	IdentifyController  = 0x01
	IdentifyActive      = 0x02 // list of the identifiers of the namespaces
	IdentifyDescriptors = 0x03 // globally unique names of a namespace
)

// A Controller describes a controller to the host, in the structure of
// IdentifyController.
type Controller struct {
	ID         uint16
	Subsystem  string // NQN of the subsystem
	Serial     string // serial number, at most 20 ASCII characters
	Model      string // model, at most 40 ASCII characters
	Firmware   string // version of the firmware, at most 8 ASCII characters
	Discovery  bool   // true if the controller only serves the discovery log
	MaxQueue   int    // largest number of commands in flight on one queue; not 0
	MaxData    int    // largest number of bytes of data of one command: a power of two, at least 4096
	InCapsule  int    // bytes of data that fit into a capsule of an I/O queue; a multiple of 16
	Namespaces uint32 // largest namespace identifier
	// WriteCache is true if only Flush, and writes with FUA, make data durable.
	WriteCache bool
}

// AppendBinary appends IdentifySize bytes to b. The error is always nil.
func (c *Controller) AppendBinary(b []byte) ([]byte, error) {
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	d := b[at:]
	putText(d[4:24], c.Serial)
	putText(d[24:64], c.Model)
	putText(d[64:72], c.Firmware)
	d[76] = 1 << 1 // CMIC: the subsystem can have several controllers
	d[77] = uint8(bits.Len(uint(c.MaxData/4096)) - 1)
	binary.LittleEndian.PutUint16(d[78:], c.ID)
	binary.LittleEndian.PutUint32(d[80:], Version14)
	d[111] = 1 // CNTRLTYPE: a controller with I/O queues
	d[258], d[259] = 3, 3
	d[261] = 1<<1 | 1<<2                       // LPA: log of command effects, long log pages
	binary.LittleEndian.PutUint16(d[320:], 10) // KAS: keep-alive unit of 1 s (10 * 100 ms)
	d[512], d[513] = 0x66, 0x44                // SQES, CQES: entries of 64 and 16 bytes
	binary.LittleEndian.PutUint16(d[514:], uint16(c.MaxQueue))
	binary.LittleEndian.PutUint32(d[516:], c.Namespaces)
	binary.LittleEndian.PutUint16(d[520:], 1<<2|1<<3) // ONCS: Dataset Management, Write Zeroes
	if c.WriteCache {
		d[525] = 1
	}
	sgls := uint32(1 | 1<<2) // SGLS: keyed descriptors
	if c.InCapsule > 0 {
		sgls |= 1 << 20 // and descriptors with an offset in the capsule
	}
	binary.LittleEndian.PutUint32(d[536:], sgls)
	copy(d[768:768+MaxNQN], c.Subsystem)
	binary.LittleEndian.PutUint32(d[1792:], uint32(CommandSize+c.InCapsule)/16)
	binary.LittleEndian.PutUint32(d[1796:], ResponseSize/16)
	d[1803] = 1 // MSDBD: one descriptor for each command
	if c.Discovery {
		d[111] = 2
		binary.LittleEndian.PutUint32(d[516:], 0)
		binary.LittleEndian.PutUint16(d[520:], 0)
		d[525] = 0
	}
	return b, nil
}

// A Namespace describes a namespace to the host, in the structures of IdentifyNamespace
// and IdentifyDescriptors.
type Namespace struct {
	Blocks    uint64   // size of the namespace in blocks
	BlockSize int      // bytes of a block: 512 or 4096
	UUID      [16]byte // identity of the namespace, the same after a restart
	ReadOnly  bool
}

// AppendBinary appends the structure of IdentifyNamespace to b, of IdentifySize bytes.
// The error is always nil.
func (n *Namespace) AppendBinary(b []byte) ([]byte, error) {
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	d := b[at:]
	for i := range 3 { // the fields NSZE, NCAP and NUSE
		binary.LittleEndian.PutUint64(d[8*i:], n.Blocks)
	}
	d[30] = 1 // NMIC: several controllers can use the namespace
	if n.ReadOnly {
		d[99] = 1
	}
	copy(d[104:120], n.UUID[:]) // NGUID
	d[130] = uint8(bits.Len(uint(n.BlockSize)) - 1)
	return b, nil
}

// AppendDescriptors appends the structure of IdentifyDescriptors to b, of IdentifySize
// bytes.
func (n *Namespace) AppendDescriptors(b []byte) []byte {
	const typeNGUID, typeUUID = 2, 3
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	d := b[at:]
	for _, kind := range []byte{typeNGUID, typeUUID} {
		d[0], d[1] = kind, 16
		copy(d[4:20], n.UUID[:])
		d = d[20:]
	}
	return b
}

// AppendActive appends the structure of IdentifyActive to b, of IdentifySize bytes. The
// parameter ids has namespace identifiers in ascending order. AppendActive leaves out all
// identifiers after the first 1,024.
func AppendActive(b []byte, ids []uint32) []byte {
	at := len(b)
	b = append(b, make([]byte, IdentifySize)...)
	for i, id := range ids[:min(len(ids), IdentifySize/4)] {
		binary.LittleEndian.PutUint32(b[at+4*i:], id)
	}
	return b
}

// putText stores ASCII text in a field, padded with spaces.
func putText(field []byte, text string) {
	for i := copy(field, text); i < len(field); i++ {
		field[i] = ' '
	}
}
