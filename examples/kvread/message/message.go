// Package message encodes what clients and the server of kvread send to each other. All
// numbers are in network byte order.
package message

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// MaxSize is the size in bytes of the longest message.
const MaxSize = 16 << 10

// The first byte of a request. A client has at most one request in flight, and at most
// one transaction.
const (
	// Begin begins a read transaction. The answer is a Snapshot.
	Begin = 1
	// End ends the transaction. It has no answer. The client sends it when all its READs
	// have completed.
	End = 2
	// Get asks for the value of a key in the transaction: see AppendGet. The answer is
	// the value.
	Get = 3
)

// The first byte of an answer.
const (
	Found    = 1 // the other bytes of the answer are the result
	NotFound = 2 // there is no such key
	Failed   = 3 // the other bytes of the answer are the text of an error
)

// ErrInvalid means that a message is not valid.
var ErrInvalid = errors.New("invalid message")

// A Snapshot tells the client how to read one version of the store: the file has Pages
// pages of PageSize bytes, and the page Root has the names of the buckets. The first byte
// of the file is at File in the memory of the server.
type Snapshot struct {
	PageSize    uint32
	Root, Pages uint64
	File        reactor.Remote
}

const snapshotSize = 20 + reactor.RemoteSize

// AppendBinary appends the encoded Snapshot to b. The error is always nil.
func (s *Snapshot) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint32(b, s.PageSize)
	b = binary.BigEndian.AppendUint64(b, s.Root)
	b = binary.BigEndian.AppendUint64(b, s.Pages)
	return s.File.AppendBinary(b)
}

// UnmarshalBinary decodes the bytes of AppendBinary.
func (s *Snapshot) UnmarshalBinary(b []byte) error {
	if len(b) != snapshotSize {
		return fmt.Errorf("%w: %d bytes of a snapshot", ErrInvalid, len(b))
	}
	s.PageSize = binary.BigEndian.Uint32(b)
	s.Root, s.Pages = binary.BigEndian.Uint64(b[4:]), binary.BigEndian.Uint64(b[12:])
	return s.File.UnmarshalBinary(b[20:])
}

// AppendGet appends a Get request to b.
func AppendGet(b, bucket, key []byte) ([]byte, error) {
	if 3+len(bucket)+len(key) > MaxSize {
		return b, fmt.Errorf("%w: bucket and key have more than %d bytes", ErrInvalid, MaxSize-3)
	}
	b = append(b, Get)
	b = binary.BigEndian.AppendUint16(b, uint16(len(bucket)))
	b = append(b, bucket...)
	return append(b, key...), nil
}

// ParseGet decodes a Get request. The results are parts of b.
func ParseGet(b []byte) (bucket, key []byte, err error) {
	if len(b) < 3 {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrInvalid, len(b))
	}
	n := int(binary.BigEndian.Uint16(b[1:]))
	if b = b[3:]; n > len(b) {
		return nil, nil, fmt.Errorf("%w: the bucket's name is cut off", ErrInvalid)
	}
	return b[:n], b[n:], nil
}
