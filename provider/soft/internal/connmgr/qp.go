//go:build linux

package connmgr

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// CreateQP implements cm.TransportID. It makes the queue pair of the ID, and moves it to
// INIT (RC) or RTS (UD). Package cm has checked pd and the type of the queue pair.
func (i *id) CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error) {
	ch := i.lock()
	defer ch.unlock()
	created, err := pd.CreateQP(attr)
	if err != nil {
		return nil, err
	}
	qp := created.(QueuePair)
	if err := i.placeDatagramQP(qp); err != nil {
		_ = qp.Close()
		return nil, err
	}
	last := verbs.StateInit
	if i.ps == cm.UDP {
		last = verbs.StateRTS
	}
	if err := i.qpToRTS(qp, verbs.StateInit, last); err != nil {
		_ = qp.Close()
		return nil, err
	}
	i.lastQP = qp
	return qp, nil
}

// ownQP returns the queue pair that was made on the ID, or nil. Nil means that the
// application names its own queue pair, or has not made one yet. A closed queue pair
// does not belong to the ID any more (rdma_destroy_qp(3)).
func (i *id) ownQP() QueuePair {
	if i.lastQP != nil && i.lastQP.Closed() {
		i.lastQP = nil
	}
	return i.lastQP
}

// chooseQP sets the queue pair of the connection: the queue pair of the ID, or else the
// one that the application names.
func (i *id) chooseQP(param *cm.MessageParam) {
	i.qpn = param.QPNum
	if own := i.ownQP(); own != nil {
		i.qpn = own.Num()
	}
}

// connectQP attaches the data path to the queue pair. It moves the queue pair to RTS if
// it belongs to the ID. The application moves a queue pair that it has made without the
// ID.
func (i *id) connectQP() error {
	own := i.ownQP()
	if err := i.conn.attach(i.qpn); err != nil || own == nil {
		return err
	}
	return i.qpToRTS(own, verbs.StateRTR, verbs.StateRTS)
}

// qpToRTS moves a queue pair to the state in the parameter first, and then to each
// further state up to and including the state in the parameter last.
func (i *id) qpToRTS(qp verbs.QP, first, last verbs.QPState) error {
	for state := first; state <= last; state++ {
		attr, mask, err := i.initQPAttr(state)
		if err != nil {
			return err
		}
		if err := qp.Modify(&attr, mask); err != nil {
			return err
		}
	}
	return nil
}

// failQP moves the queue pair of a failed connection to the error state. A UD queue pair
// does not depend on the failed lookup, and keeps its state.
func (i *id) failQP() {
	if i.ps == cm.TCP {
		i.flushQP()
	}
}

// flushQP moves the queue pair of the ID to the error state, if there is one.
func (i *id) flushQP() {
	if own := i.ownQP(); own != nil {
		_ = own.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState)
	}
}

// InitQPAttr implements cm.TransportID. It returns the attributes with which the
// application moves its own queue pair to the given state (rdma_init_qp_attr(3)). On the
// passive side the attributes contain the parameters of the request, even before Accept.
func (i *id) InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	ch := i.lock()
	defer ch.unlock()
	return i.initQPAttr(state)
}

// placeDatagramQP decides where a UD queue pair receives datagrams of the wire path:
//
//   - If the lookup of the ID uses the wire path, or the device has no local path, the
//     queue pair receives at the local address of the ID. An error of ReceiveAt is
//     returned.
//   - If the ID has no remote address, and its local address is not a loopback address,
//     some peers can use the local path and others the wire path. The queue pair receives
//     at the local address of the ID. An error of ReceiveAt is ignored, because the local
//     path remains.
//   - In all other cases peers use the local path. The queue pair receives no
//     datagrams of the wire path.
func (i *id) placeDatagramQP(q QueuePair) error {
	if i.ps != cm.UDP {
		return nil
	}
	at := hostport.WithoutZone(i.local.Addr())
	requestOnWire := i.conn != nil && i.conn.usesDatagrams()
	switch {
	case !i.m.Local || i.madPort != nil || requestOnWire:
		return q.ReceiveAt(at)
	case !i.remote.IsValid() && !at.IsLoopback():
		_ = q.ReceiveAt(at) // ReceiveAt fails if another process has the UDP port.
		return nil
	}
	return q.ReceiveAt(netip.Addr{})
}
