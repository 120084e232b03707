package nvme

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// A LengthError reports a structure whose length is wrong.
type LengthError struct {
	What string // name of the structure
	// Len is the length of the structure in bytes. Want is the right length, or the
	// smallest length if the structure can have several.
	Len, Want int
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("nvme: %s has %d bytes instead of %d", e.What, e.Len, e.Want)
}

// A QueueRequest is the private data with which a host asks for the RDMA connection of
// one queue. Source: RDMA, 3.3 (RDMA_CM_REQUEST).
type QueueRequest struct {
	Format     uint16 // format of the private data; only 0 exists
	QID        uint16 // 0 for the admin queue
	RecvSize   uint16 // number of receive buffers that the host posts
	SendSizeM1 uint16 // largest number of commands in flight, minus 1
	Controller uint16 // identifier of the controller; older specifications reserve it
}

// QueueRequestSize is the length in bytes of a QueueRequest. Private data can arrive with
// zeros behind it.
const QueueRequestSize = 32

// UnmarshalBinary decodes the private data of a connection request. If b is shorter than
// QueueRequestSize, the error is a *LengthError.
func (r *QueueRequest) UnmarshalBinary(b []byte) error {
	if len(b) < QueueRequestSize {
		return &LengthError{What: "private data", Len: len(b), Want: QueueRequestSize}
	}
	r.Format = binary.LittleEndian.Uint16(b)
	r.QID = binary.LittleEndian.Uint16(b[2:])
	r.RecvSize = binary.LittleEndian.Uint16(b[4:])
	r.SendSizeM1 = binary.LittleEndian.Uint16(b[6:])
	r.Controller = binary.LittleEndian.Uint16(b[8:])
	return nil
}

// AppendBinary appends QueueRequestSize bytes to b. The error is always nil.
func (r *QueueRequest) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint16(b, r.Format)
	b = binary.LittleEndian.AppendUint16(b, r.QID)
	b = binary.LittleEndian.AppendUint16(b, r.RecvSize)
	b = binary.LittleEndian.AppendUint16(b, r.SendSizeM1)
	b = binary.LittleEndian.AppendUint16(b, r.Controller)
	return append(b, make([]byte, QueueRequestSize-10)...), nil
}

// AppendQueueAccept appends to b the private data with which a target accepts a queue.
// The parameter recvSize is the number of commands that the target can receive.
func AppendQueueAccept(b []byte, recvSize uint16) []byte {
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, recvSize)
	return append(b, make([]byte, QueueRequestSize-4)...)
}

// RejectReason says why a target rejects the connection of a queue. Source: RDMA, 3.3
// (RDMA_CM_REJECT).
type RejectReason uint16

// Reasons to reject a connection.
const (
	RejectLength      RejectReason = 1 // the private data is too short
	RejectFormat      RejectReason = 2
	RejectQID         RejectReason = 3
	RejectSendSize    RejectReason = 4
	RejectRecvSize    RejectReason = 5
	RejectNoResources RejectReason = 6
	RejectIRD         RejectReason = 7 // the host allows no READs
	RejectORD         RejectReason = 8
)

// AppendReject appends to b the private data with which a target rejects a queue.
func AppendReject(b []byte, reason RejectReason) []byte {
	b = append(b, 0, 0)
	return binary.LittleEndian.AppendUint16(b, uint16(reason))
}

// Fields of a Connect command, as offsets for Command.Uint8, Uint16 and Uint32.
const (
	ConnectFormatAt    = 40 // format of the command, 16 bits; only 0 exists
	ConnectQIDAt       = 42 // identifier of the queue, 16 bits
	ConnectQueueSizeAt = 44 // size of the queue minus 1, 16 bits
	ConnectAttrAt      = 46 // attributes, 8 bits; see ConnectNoFlowControl
	ConnectKeepAliveAt = 48 // keep-alive timeout in milliseconds, 32 bits
)

// ConnectNoFlowControl is a bit of the field at ConnectAttrAt: the host does not want to
// know the head of the submission queue, and Response.SQHead is 0xFFFF.
const ConnectNoFlowControl = 1 << 2

// ConnectDataSize is the length in bytes of the data of a Connect command.
const ConnectDataSize = 1024

// AnyController is the controller identifier with which a host asks for a new controller.
const AnyController = 0xFFFF

// ConnectData is the data of a Connect command. Source: Base, 6.3.
type ConnectData struct {
	HostID     [16]byte
	Controller uint16 // AnyController on the admin queue
	Subsystem  string // NQN of the subsystem
	Host       string // NQN of the host
}

// Offsets in the data of a Connect command. A target names one of them when it refuses a
// Connect command.
const (
	ConnectDataControllerAt = 16
	ConnectDataSubsystemAt  = 256
	ConnectDataHostAt       = 512
)

// UnmarshalBinary decodes the data of a Connect command. The error is a *LengthError or
// an *NQNError.
func (d *ConnectData) UnmarshalBinary(b []byte) (err error) {
	if len(b) != ConnectDataSize {
		return &LengthError{What: "connect data", Len: len(b), Want: ConnectDataSize}
	}
	copy(d.HostID[:], b)
	d.Controller = binary.LittleEndian.Uint16(b[ConnectDataControllerAt:])
	if d.Subsystem, err = decodeNQN(b, ConnectDataSubsystemAt); err != nil {
		return err
	}
	d.Host, err = decodeNQN(b, ConnectDataHostAt)
	return err
}

// AppendBinary appends ConnectDataSize bytes to b. The error is an *NQNError if a name is
// too long.
func (d *ConnectData) AppendBinary(b []byte) ([]byte, error) {
	data := make([]byte, ConnectDataSize)
	copy(data, d.HostID[:])
	binary.LittleEndian.PutUint16(data[ConnectDataControllerAt:], d.Controller)
	for at, name := range map[int]string{ConnectDataSubsystemAt: d.Subsystem, ConnectDataHostAt: d.Host} {
		if len(name) == 0 || len(name) > MaxNQN {
			return b, &NQNError{Offset: at}
		}
		copy(data[at:], name)
	}
	return append(b, data...), nil
}

// MaxNQN is the largest length in bytes of an NVMe Qualified Name. Source: Base, 4.5.
const MaxNQN = 223

// NQNDiscovery is the name of the discovery subsystem. Source: Base, 4.5.1.
const NQNDiscovery = "nqn.2014-08.org.nvmexpress.discovery"

const nqnField = 256 // length in bytes of a field that holds an NQN

// An NQNError reports a name that is empty or too long.
type NQNError struct {
	Offset int // offset of the name in the data
}

func (e *NQNError) Error() string {
	return fmt.Sprintf("nvme: the NQN at offset %d is empty or longer than %d bytes", e.Offset, MaxNQN)
}

// decodeNQN returns the name at an offset. The name ends before the first zero.
func decodeNQN(b []byte, at int) (string, error) {
	n := bytes.IndexByte(b[at:at+nqnField], 0)
	if n < 1 || n > MaxNQN {
		return "", &NQNError{Offset: at}
	}
	return string(b[at : at+n]), nil
}
