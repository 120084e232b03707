package reactor

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Remote names memory of the peer. The peer makes it with RemoteOf and sends it,
// mostly as private data or in a first message.
type Remote struct {
	Addr uint64 // virtual address at the peer, as its MR.Addr gives it
	RKey uint32 // its MR.RKey
}

// RemoteSize is the length in bytes of a Remote as AppendBinary writes it.
const RemoteSize = 12

// RemoteOf is what the peer has to know of a whole region of ours. Which operations
// it allows the access flags of the region say.
func RemoteOf(mr verbs.MR) Remote { return Remote{Addr: mr.Addr(), RKey: mr.RKey()} }

// AppendBinary appends RemoteSize bytes to b: address and key, in network order.
// There is no error. See encoding.BinaryAppender.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	return binary.BigEndian.AppendUint32(b, r.RKey), nil
}

// UnmarshalBinary reads what AppendBinary wrote. What follows it is ignored:
// private data is padded with zeros. Fewer than RemoteSize bytes are an error that
// matches verbs.ErrProtocol. See encoding.BinaryUnmarshaler.
func (r *Remote) UnmarshalBinary(b []byte) error {
	if len(b) < RemoteSize {
		return verbs.Wrap("remote", fmt.Errorf("%w: %d bytes instead of %d", verbs.ErrProtocol, len(b), RemoteSize))
	}
	r.Addr, r.RKey = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	return nil
}
