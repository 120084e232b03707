//go:build linux

package connmgr

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// CreateQP implements cm.TransportID. It moves an RC queue pair to INIT, and a UD queue
// pair to RTS. Package cm has checked pd and the type.
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

// ownQP returns the queue pair that was made on the ID. It returns nil if there is none,
// or if the queue pair is closed.
func (i *id) ownQP() QueuePair {
	if i.lastQP != nil && i.lastQP.Closed() {
		i.lastQP = nil
	}
	return i.lastQP
}

// chooseQP sets the number of the connection's queue pair. If no queue pair was made on
// the ID, it uses the number in param.
func (i *id) chooseQP(param *cm.MessageParam) {
	i.qpn = param.QPNum
	if own := i.ownQP(); own != nil {
		i.qpn = own.Num()
	}
}

// connectQP attaches the queue pair to its data path, and moves it to RTS. The
// application itself moves a queue pair that was not made on the ID.
func (i *id) connectQP() error {
	own := i.ownQP()
	if err := i.conn.attach(i.qpn); err != nil || own == nil {
		return err
	}
	return i.qpToRTS(own, verbs.StateRTR, verbs.StateRTS)
}

// qpToRTS moves a queue pair through the states from first to last.
func (i *id) qpToRTS(qp verbs.QP, first, last verbs.QPState) error {
	attr := &i.ch.Load().attr
	for state := first; state <= last; state++ {
		var mask verbs.QPAttrMask
		var err error
		if *attr, mask, err = i.initQPAttr(state); err != nil {
			return err
		}
		if err := qp.Modify(attr, mask); err != nil {
			return err
		}
	}
	return nil
}

// failQP moves a failed connection's queue pair to the error state. A UD queue pair
// keeps its state.
func (i *id) failQP() {
	if i.ps == cm.TCP {
		i.flushQP()
	}
}

// flushQP moves the ID's queue pair, if any, to the error state.
func (i *id) flushQP() {
	if own := i.ownQP(); own != nil {
		attr := &i.ch.Load().attr
		*attr = verbs.QPAttr{State: verbs.StateError}
		_ = own.Modify(attr, verbs.AttrState)
	}
}

// InitQPAttr implements cm.TransportID. It is for a queue pair that was not created on
// the ID (rdma_init_qp_attr(3)). On the passive side it may be called before Accept.
func (i *id) InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	ch := i.lock()
	defer ch.unlock()
	return i.initQPAttr(state)
}

// placeDatagramQP decides where a UD queue pair receives datagrams of the wire path:
//
//   - At the ID's address, if the lookup uses the wire path or the device has no local
//     path.
//   - At the ID's address, if the ID has no remote address and its own address is not a
//     loopback address.
//   - Otherwise nowhere, because peers use the local path.
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
