package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
		return nil, operr.Wrap(op, verbs.ErrForeign)
	}
	if c.device == nil {
		return nil, operr.Wrap(op, verbs.ErrState)
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
func (r *Region) remote(d *domain, offset, length int) ([]RemotePiece, error) {
	if err := r.checkRange(offset, length); err != nil {
		return nil, err
	}
	reg, err := r.on(d)
	if err != nil {
		return nil, err
	}
	return reg.appendRemote(nil, offset, length), nil
}
