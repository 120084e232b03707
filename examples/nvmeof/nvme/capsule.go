package nvme

import "encoding/binary"

// Sizes in bytes.
const (
	CommandSize  = 64 // size of a command capsule without data
	ResponseSize = 16 // size of a response capsule
)

// Command is a command of 64 bytes: a submission queue entry. It aliases the bytes of the
// capsule. Source: Base, 3.3.3.1.
type Command []byte

// Opcodes of the admin queue.
const (
	AdminGetLogPage  = 0x02
	AdminIdentify    = 0x06
	AdminAbort       = 0x08
	AdminSetFeatures = 0x09
	AdminGetFeatures = 0x0A
	AdminAsyncEvent  = 0x0C
	AdminKeepAlive   = 0x18
)

// Opcodes of I/O queues. Source: NVM, 3.2.
const (
	IOFlush             = 0x00
	IOWrite             = 0x01
	IORead              = 0x02
	IOCompare           = 0x05
	IOWriteZeroes       = 0x08
	IODatasetManagement = 0x09
)

// Fabrics is the opcode of all Fabrics commands. Command.FabricsType names the command.
const Fabrics = 0x7F

// Types of Fabrics commands. Source: Base, 6.
const (
	FabricsPropertySet = 0x00
	FabricsConnect     = 0x01
	FabricsPropertyGet = 0x04
)

// Opcode returns the opcode of the command.
func (c Command) Opcode() uint8 { return c[0] }

// ValidFlags reports whether the command has the only flags that are allowed over RDMA:
// its data is described by an SGL, and the command is not fused with another one.
func (c Command) ValidFlags() bool { return c[1]&0xC3 == 0x40 }

// ID returns the command identifier, which the response repeats.
func (c Command) ID() uint16 { return binary.LittleEndian.Uint16(c[2:]) }

// SetID sets the command identifier.
func (c Command) SetID(id uint16) { binary.LittleEndian.PutUint16(c[2:], id) }

// SetFlags sets the only flags that ValidFlags accepts.
func (c Command) SetFlags() { c[1] = 0x40 }

// Namespace returns the namespace identifier.
func (c Command) Namespace() uint32 { return binary.LittleEndian.Uint32(c[4:]) }

// FabricsType returns the type of a Fabrics command.
func (c Command) FabricsType() uint8 { return c[4] }

// SGL returns the descriptor of the command's data.
func (c Command) SGL() SGL { return SGL(c[24:40]) }

// Uint8 returns the byte at the given offset in the command.
func (c Command) Uint8(offset int) uint8 { return c[offset] }

// Uint16 returns the 16 bits at the given offset in the command.
func (c Command) Uint16(offset int) uint16 { return binary.LittleEndian.Uint16(c[offset:]) }

// Uint32 returns the 32 bits at the given offset in the command.
func (c Command) Uint32(offset int) uint32 { return binary.LittleEndian.Uint32(c[offset:]) }

// Uint64 returns the 64 bits at the given offset in the command.
func (c Command) Uint64(offset int) uint64 { return binary.LittleEndian.Uint64(c[offset:]) }

// SGL is a scatter/gather list descriptor of 16 bytes, which says where the data of a
// command is. It aliases the bytes of the command. Source: Base, 4.1.2.
type SGL []byte

// Kinds of SGL descriptors: the type in bits 7:4, the subtype in bits 3:0.
const (
	SGLInCapsule       = 0x01 // data that follows the command in its capsule
	SGLKeyed           = 0x40 // data in the host's memory
	SGLKeyedInvalidate = 0x4F // data in the host's memory, whose key the response may invalidate
)

// Kind returns the type and subtype of the descriptor.
func (s SGL) Kind() uint8 { return s[15] }

// Keyed reports whether the data is in the host's memory.
func (s SGL) Keyed() bool { return s.Kind() == SGLKeyed || s.Kind() == SGLKeyedInvalidate }

// Offset returns where the data of a descriptor of kind SGLInCapsule begins, counted from
// the end of the command.
func (s SGL) Offset() uint64 { return binary.LittleEndian.Uint64(s) }

// Addr returns the address of the data of a keyed descriptor.
func (s SGL) Addr() uint64 { return binary.LittleEndian.Uint64(s) }

// Key returns the remote key of a keyed descriptor.
func (s SGL) Key() uint32 { return binary.LittleEndian.Uint32(s[11:]) }

// Len returns the length of the data in bytes.
func (s SGL) Len() uint32 {
	if s.Kind()>>4 == SGLKeyed>>4 {
		return uint32(s[8]) | uint32(s[9])<<8 | uint32(s[10])<<16
	}
	return binary.LittleEndian.Uint32(s[8:])
}

// SetKeyed makes s a keyed descriptor. The length must be less than 16 MiB.
func (s SGL) SetKeyed(kind uint8, addr uint64, length, key uint32) {
	binary.LittleEndian.PutUint64(s, addr)
	binary.LittleEndian.PutUint32(s[8:], length)
	binary.LittleEndian.PutUint32(s[11:], key)
	s[15] = kind
}

// SetInCapsule makes s a descriptor of data in the capsule.
func (s SGL) SetInCapsule(offset uint64, length uint32) {
	binary.LittleEndian.PutUint64(s, offset)
	binary.LittleEndian.PutUint32(s[8:], length)
	clear(s[12:15])
	s[15] = SGLInCapsule
}

// Response is the answer to a command: a completion queue entry. Source: Base, 3.3.3.2.
type Response struct {
	Result  uint64 // depends on the command; often only 32 bits are used
	SQHead  uint16 // position in the submission queue up to which commands were taken
	SQID    uint16 // identifier of the submission queue
	Command uint16 // identifier of the command
	Status  Status
}

// AppendBinary appends the ResponseSize bytes of the response to b. The error is always
// nil. It implements encoding.BinaryAppender.
func (r *Response) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(b, r.Result)
	b = binary.LittleEndian.AppendUint16(b, r.SQHead)
	b = binary.LittleEndian.AppendUint16(b, r.SQID)
	b = binary.LittleEndian.AppendUint16(b, r.Command)
	// Bit 0 is the phase, which is always 0 over Fabrics.
	return binary.LittleEndian.AppendUint16(b, uint16(r.Status)<<1), nil
}

// UnmarshalBinary decodes a response. If b does not have ResponseSize bytes, the error is
// a *LengthError.
func (r *Response) UnmarshalBinary(b []byte) error {
	if len(b) != ResponseSize {
		return &LengthError{What: "response", Len: len(b), Want: ResponseSize}
	}
	r.Result = binary.LittleEndian.Uint64(b)
	r.SQHead = binary.LittleEndian.Uint16(b[8:])
	r.SQID = binary.LittleEndian.Uint16(b[10:])
	r.Command = binary.LittleEndian.Uint16(b[12:])
	r.Status = Status(binary.LittleEndian.Uint16(b[14:]) >> 1)
	return nil
}
