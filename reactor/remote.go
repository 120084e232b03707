package reactor

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Remote is the address and key of the peer's memory, for one-sided operations. The peer
// gets the Remote from Region.Remote or Conn.Show and sends it, usually as private data
// or in a first message. A key protects the memory as follows:
//
//   - A key is sent unencrypted, so anybody who can read the packets knows the key.
//   - All peers of one engine and device can use a key of Region.Remote that they know,
//     on whichever loop their connections are, until Region.Close. Other engines and
//     devices refuse the key. It is valid for the whole Region, with its rights.
//   - Only the peer of one connection can use a key of Conn.Show, for the bytes and with
//     the rights that were shown, until the key is taken back. A Region without remote
//     rights can be used with such keys only.
//
// The software device (provider/soft) makes keys of 32 random bits. Each wrong guess
// ends a connection. After nine wrong guesses, a source must wait one second before it
// can connect again. Each further wait is twice as long, up to ten minutes.
//
// A source is a local user, an IPv4 address or an IPv6 prefix of 48 bits. The device
// remembers 4,096 sources. A peer that has more sources does not have to wait.
//
// A source that opens 16,384 connections after each wait finds the only key of a domain
// after two and a half years on average. With several keys or several sources, this time
// is divided by their number. Keys of kernel devices can be easier to guess: rdma_rxe has
// 8 random bits.
type Remote struct {
	Addr uint64 // virtual address at the peer
	RKey uint32 // remote key of the registration at the peer
}

// RemoteSize is the length in bytes of a Remote as AppendBinary writes it.
const RemoteSize = 12

// AppendBinary appends RemoteSize bytes to b: address and key, in network byte order. The
// error is always nil. It implements encoding.BinaryAppender.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	return binary.BigEndian.AppendUint32(b, r.RKey), nil
}

// UnmarshalBinary decodes the bytes of AppendBinary. It ignores further bytes, because
// private data is padded with zeros. If b has fewer than RemoteSize bytes, the error
// matches verbs.ErrProtocol. UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (r *Remote) UnmarshalBinary(b []byte) error {
	if len(b) < RemoteSize {
		return operr.Wrap("decode remote", fmt.Errorf("%w: %d bytes instead of %d", verbs.ErrProtocol, len(b), RemoteSize))
	}
	r.Addr, r.RKey = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	return nil
}

// remoteRights are the access rights that a peer can have.
const remoteRights = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// errNoRemoteRights is the error of Region.Remote for a Region without remote rights.
var errNoRemoteRights = &verbs.ParamError{
	Field: "region", NotNumber: true,
	Reason: "registered without AccessRemoteRead, AccessRemoteWrite and AccessRemoteAtomic, so no peer could use the key; Conn.Show needs none of them",
}

// Remote returns what the peers of connections on a device need to use a part of the Region.
// The result differs by device: it is that of ConnInfo.Device or ConnRequest.Device. The key is
// valid for all peers of the engine and for the whole Region. Conn.Show makes a key for one
// peer and a part of a Region. The offset and the length, at least 1, are in bytes. Any
// goroutine may call Remote.
//
// The peers have the remote rights of the Region. If it has none, no peer can use its key, and
// the error is a *verbs.ParamError.
//
// A Region that is larger than verbs.DeviceAttr.MaxMRSize has a key for each such length, rounded
// down to whole pages. A part that needs more than one is refused with a *verbs.ParamError, whose
// Limit is the length that one key has from the offset on. A part outside the Region is refused
// with a *verbs.ParamError, too. If the device belongs to another provider, the error is
// verbs.ErrForeign, and after Close ErrClosed. The other errors are those of Engine.Register.
func (r *Region) Remote(dev verbs.Device, offset, length int) (Remote, error) {
	remote, err := r.remote(dev, offset, length)
	return remote, operr.Wrap("describe region", err)
}

// remote implements Remote.
func (r *Region) remote(dev verbs.Device, offset, length int) (Remote, error) {
	if dev == nil {
		return Remote{}, &verbs.ParamError{Field: "device", NotNumber: true, Reason: "missing; a connection has none before it has a queue pair"}
	}
	d, err := r.engine.domainOn(dev)
	if err != nil {
		return Remote{}, err
	}
	if err := operr.CheckRange("length", length, 1, math.MaxInt); err != nil {
		return Remote{}, err
	}
	if err := r.checkRange(offset, length); err != nil {
		return Remote{}, err
	}
	if r.access&remoteRights == 0 {
		return Remote{}, errNoRemoteRights
	}
	reg, err := r.on(d)
	if err != nil {
		return Remote{}, err
	}
	p, at, n := reg.Find(offset, length)
	if n < length {
		return Remote{}, &verbs.ParamError{Field: "length", Value: int64(length), Limit: int64(n), Reason: "the part needs two keys, because the device's memory regions have at most MaxMRSize bytes"}
	}
	return Remote{Addr: p.Addr + uint64(at), RKey: p.RKey}, nil
}
