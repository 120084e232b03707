package reactor

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Remote is the address and the key of memory of the peer, for one-sided operations. The
// peer makes it with RemoteOf and sends it, usually as private data or in a first
// message.
//
// Only the key protects the memory from other peers: a peer without the key has to guess
// it. All connections of a loop over one device are in one protection domain: each of
// their peers can use every key that it knows, no matter which peer the key was sent to.
// Connections of other loops and other devices are in other domains, where the key is
// refused. A key is sent unencrypted, so anybody who can read the packets knows it. If
// only some peers are allowed to use a region, it is best to register the region for one
// operation and to close it afterwards. Its key is then refused, and does not help to
// guess the keys of later regions.
//
// The software device (provider/soft) makes keys of 32 random bits, and makes it slow to
// guess them. Each wrong guess ends the connection on which it arrived. The device
// counts the wrong guesses of each source: a source is a local user, an IPv4 address, or
// an IPv6 prefix of 48 bits. After eight wrong guesses the device refuses new
// connections from the source for one second. Each further wait is twice as long, up to
// ten minutes. For example, if a domain has one region and a source may have 16,384
// connections at a time, the source needs two and a half years on average to guess the
// key. If the domain has n regions, the average time until the source has guessed one of
// their keys is divided by n. If a peer has k sources, the time is divided by k. The
// device remembers at most 4,096 sources. A peer that has more, such as an IPv6 prefix
// of 35 bits or less, does not have to wait. The keys of kernel devices can be easier to
// guess: rdma_rxe has 8 random bits in a key.
type Remote struct {
	Addr uint64 // virtual address at the peer: the result of MR.Addr there, plus an offset
	RKey uint32 // remote key of the region: the result of MR.RKey at the peer
}

// RemoteSize is the length in bytes of a Remote as AppendBinary writes it.
const RemoteSize = 12

// RemoteOf returns the Remote that the peer needs for one-sided operations on the region
// mr of this side. The peer can only do the operations that the access flags of the
// region allow.
func RemoteOf(mr verbs.MR) Remote { return Remote{Addr: mr.Addr(), RKey: mr.RKey()} }

// AppendBinary appends RemoteSize bytes to b: address and key, in network byte order. The
// error is always nil. It implements encoding.BinaryAppender.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	return binary.BigEndian.AppendUint32(b, r.RKey), nil
}

// UnmarshalBinary decodes the bytes that AppendBinary has appended. Bytes after these
// are ignored, because private data is padded with zeros. If b has fewer than RemoteSize
// bytes, the error matches verbs.ErrProtocol. It implements encoding.BinaryUnmarshaler.
func (r *Remote) UnmarshalBinary(b []byte) error {
	if len(b) < RemoteSize {
		return operr.Wrap("decode remote", fmt.Errorf("%w: %d bytes instead of %d", verbs.ErrProtocol, len(b), RemoteSize))
	}
	r.Addr, r.RKey = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	return nil
}
