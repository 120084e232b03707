//go:build linux

package madcm

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The passive side can refuse the path MTU of a REQ (IBTA vol. 1, 12.6.7.2, reason 26).
// The active side then sends another REQ with a smaller MTU.

// refusesMTU reports whether a REJ refuses the path MTU in the last REQ of this
// connection.
func (c *madConn) refusesMTU(r *wire.REJ) bool {
	return cm.RejectReason(r.Reason) == cm.RejectInvalidMTU && c.state != madOrphan &&
		c.id.State() == connmgr.StateREQSent && c.retransmit.mad.Attribute() == wire.AttrREQ
}

// retryWithSmallerMTU handles a REJ that refuses the path MTU: it sends another REQ and
// returns true. This REQ has the path MTU that the REJ names, or else the next smaller
// one. retryWithSmallerMTU returns false for another REJ, and if there is no smaller
// path MTU.
func (c *madConn) retryWithSmallerMTU(refusal *wire.REJ) bool {
	if !c.refusesMTU(refusal) || c.id.PathMTU() <= minPathMTU {
		return false
	}
	mtu := c.id.PathMTU() - 1
	if named := verbs.MTU(refusal.Info[0]); refusal.InfoLength == 1 && named >= minPathMTU && named < mtu {
		mtu = named
	}
	c.id.SetPathMTU(mtu)
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

// changeID gives the connection a new communication ID.
func (c *madConn) changeID() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	delete(c.mux.conns, c.ownID)
	c.ownID = c.mux.newID()
	c.mux.conns[c.ownID] = c
}

// errOwnPort is the cause of a refusal if the remote address belongs to this device
// itself.
var errOwnPort = errors.New("this device itself has the UDP port of that address; is the listener on the local path only?")

// refusal decodes a REJ. It sets the field cause of the result to nil, to errOwnPort, or
// to an error that names the path MTUs that were tried.
func (c *madConn) refusal(r *wire.REJ) *connmgr.REJ {
	m := parseREJ(r)
	switch {
	case c.refusesMTU(r):
		m.Cause = &cm.MTUError{Largest: c.largestMTU, Smallest: c.id.PathMTU()}
	case m.Reason == cm.RejectInvalidServiceID && c.remote == c.port.local:
		m.Cause = errOwnPort
	}
	return m
}
