package reactor

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
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

// A RemotePiece tells a peer how to access a part of a Region.
type RemotePiece struct {
	Remote Remote // address and key of the first byte
	Length int    // number of bytes that the peer can use with this key
}

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

// Remote returns what the peer of the connection c needs to use a part of the Region. The
// key is valid for all peers of the engine and for the whole Region. Conn.Show makes a
// key for one peer and a part of a Region. The offset and the length are in bytes. The
// list has one element, unless the Region is larger than verbs.DeviceAttr.MaxMRSize. It
// has no element if the length is 0.
//
// If the part is outside the Region, the error is a *verbs.ParamError. For a connection
// of another engine it matches verbs.ErrForeign, before the connection has a device
// verbs.ErrState, and after Close ErrClosed. The other errors are those of
// Engine.Register. Only the goroutine of the connection's loop may call Remote.
func (r *Region) Remote(c *Conn, offset, length int) ([]RemotePiece, error) {
	const op = "describe region"
	if c.loop.engine != r.engine {
		return nil, operr.Wrap(op, foreignError("the connection is of another engine"))
	}
	if c.device == nil {
		return nil, operr.Wrap(op, stateError("the connection has no device yet; see PrivateDataFunc"))
	}
	list, err := r.remote(c.device.domain, offset, length)
	return list, operr.Wrap(op, err)
}

// RemoteOn is Remote for the peers of connections on a device. The result differs by
// device. Before Accept, ConnRequest.Device returns the device. Any goroutine may call
// RemoteOn. If the device belongs to another provider, the error is verbs.ErrForeign.
func (r *Region) RemoteOn(dev verbs.Device, offset, length int) ([]RemotePiece, error) {
	const op = "describe region"
	d, err := r.engine.domainOn(dev)
	if err != nil {
		return nil, operr.Wrap(op, err)
	}
	list, err := r.remote(d, offset, length)
	return list, operr.Wrap(op, err)
}

// remote implements Remote and RemoteOn.
func (r *Region) remote(d *memory.Domain, offset, length int) ([]RemotePiece, error) {
	if err := r.checkRange(offset, length); err != nil {
		return nil, err
	}
	reg, err := r.on(d)
	if err != nil {
		return nil, err
	}
	return appendRemote(nil, reg, offset, length), nil
}

// appendRemote appends address, key and length of a part of a region to the list. A part
// with several memory regions needs several elements.
func appendRemote(list []RemotePiece, reg *memory.Registration, offset, length int) []RemotePiece {
	for length > 0 {
		p, at, n := reg.Find(offset, length)
		list = append(list, RemotePiece{Remote: Remote{Addr: p.Addr + uint64(at), RKey: p.RKey}, Length: n})
		offset, length = offset+n, length-n
	}
	return list
}
