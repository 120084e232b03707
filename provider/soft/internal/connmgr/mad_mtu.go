//go:build linux

package connmgr

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The path MTU is negotiated with several REQs, because only a REQ names the path MTU: a
// REP can not change it. A side that supports only a smaller MTU refuses the REQ (IBTA
// vol. 1, 12.6.7.2, reason 26). The other side then sends another REQ with a smaller
// MTU. This ends after at most five REQs, because InfiniBand has five MTUs.

// refusesMTU reports whether a REJ refuses the path MTU of the REQ of this connection.
func (c *madConn) refusesMTU(r *wire.REJ) bool {
	return cm.RejectReason(r.Reason) == cm.RejectInvalidMTU && c.state != madOrphan &&
		c.id.state == stateREQSent && c.retransmit.mad.Attribute() == wire.AttrREQ
}

// retryWithSmallerMTU sends another REQ with a smaller path MTU, if the peer has refused
// the MTU of the last one. It reports whether it has sent a REQ. The new MTU is the one
// in the REJ, or else the next smaller one. The new REQ has a new communication ID,
// because the peer answers a copy of the old REQ with the same REJ.
func (c *madConn) retryWithSmallerMTU(refusal *wire.REJ) bool {
	if !c.refusesMTU(refusal) || c.id.negotiated.mtu <= minPathMTU {
		return false
	}
	mtu := c.id.negotiated.mtu - 1
	if named := verbs.MTU(refusal.Info[0]); refusal.InfoLength == 1 && named >= minPathMTU && named < mtu {
		mtu = named
	}
	c.id.negotiated.mtu = mtu
	var r wire.REQ
	r.Decode(&c.retransmit.mad)
	c.changeID()
	r.LocalID, r.MTU = c.ownID, uint8(mtu)
	c.retransmit.stop()
	r.Encode(&c.retransmit.mad, tid(c.ownID))
	c.retransmit.sendNow()
	c.retransmit.start(requestRetransmits)
	return true
}

// changeID assigns another communication ID to the connection.
func (c *madConn) changeID() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	delete(c.mux.conns, c.ownID)
	c.ownID = c.mux.newID()
	c.mux.conns[c.ownID] = c
}

// errOwnPort is the cause of a refusal when this device has refused its own request. The
// peer's address is then an address of this device, and the application has probably
// expected a listener of another device there.
var errOwnPort = errors.New("this device itself has the UDP port of that address; is the listener on the local path only?")

// refusal decodes a REJ. In two cases it sets the field cause of the result. If the REJ
// refuses the path MTU, the cause names the largest and the smallest MTU that this side
// has tried. If this device has no listener at its own address, the cause is errOwnPort.
func (c *madConn) refusal(r *wire.REJ) *rejMsg {
	m := parseREJ(r)
	switch {
	case c.refusesMTU(r):
		m.cause = &cm.MTUError{Largest: c.port.mtu, Smallest: c.id.negotiated.mtu}
	case m.reason == cm.RejectInvalidServiceID && c.remote == c.port.local:
		m.cause = errOwnPort
	}
	return m
}
