//go:build linux

package connmgr

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// CreateQP implements cm.TransportID. It moves an RC queue pair to INIT, and a UD queue
// pair to RTS. Package cm has already checked the arguments.
func (i *ID) CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) (verbs.QP, error) {
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

// ownQP returns the queue pair that CreateQP has made. It returns nil if CreateQP was not
// called, or if the queue pair is closed.
func (i *ID) ownQP() QueuePair {
	if i.lastQP != nil && i.lastQP.Closed() {
		i.lastQP = nil
	}
	return i.lastQP
}

// chooseQP sets the field qpn to the number of ownQP. If ownQP returns nil, it sets qpn
// to the number in param.
func (i *ID) chooseQP(param *cm.MessageParam) {
	i.qpn = param.QPNum
	if own := i.ownQP(); own != nil {
		i.qpn = own.Num()
	}
}

// connectQP tells the engine how the local queue pair reaches its peer. If CreateQP has
// made the queue pair, connectQP also moves it to RTS. Otherwise the application moves
// its own queue pair to RTS.
func (i *ID) connectQP() error {
	own := i.ownQP()
	b, err := i.conn.Attach(i.qpn)
	if err == nil {
		err = i.bound.bind(i.m.Engine, i.qpn, b)
	}
	if err != nil || own == nil {
		return err
	}
	return i.qpToRTS(own, verbs.StateRTR, verbs.StateRTS)
}

// qpToRTS moves a queue pair to the states from first to last, one after another.
func (i *ID) qpToRTS(qp verbs.QP, first, last verbs.QPState) error {
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

// failQP moves the queue pair of a failed connection to the error state. It does not
// change a UD queue pair.
func (i *ID) failQP() {
	if i.ps == cm.TCP {
		i.flushQP()
	}
}

// flushQP moves the ID's own queue pair, if it has one, to the error state.
func (i *ID) flushQP() {
	if own := i.ownQP(); own != nil {
		attr := &i.ch.Load().attr
		*attr = verbs.QPAttr{State: verbs.StateError}
		_ = own.Modify(attr, verbs.AttrState)
	}
}

// InitQPAttr implements cm.TransportID. The application needs it for a queue pair that
// CreateQP has not made (rdma_init_qp_attr(3)). On the passive side it may be called
// before Accept.
func (i *ID) InitQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	ch := i.lock()
	defer ch.unlock()
	return i.initQPAttr(state)
}

// placeDatagramQP decides where a UD queue pair receives datagrams of the wire path:
//
//   - The queue pair receives at the ID's address if the SIDR request uses the wire path,
//     or if the device has no local path.
//   - The queue pair also receives at the ID's address if the ID has no remote address,
//     and its own address is not a loopback address.
//   - Otherwise the queue pair receives none, because its peers use the local path.
func (i *ID) placeDatagramQP(q QueuePair) error {
	if i.ps != cm.UDP {
		return nil
	}
	at := hostport.WithoutZone(i.local.Addr())
	onWire := i.conn != nil && i.conn.Path() == WirePath
	switch {
	case i.m.Local == nil || onWire:
		return q.ReceiveAt(at)
	case !i.remote.IsValid() && !at.IsLoopback():
		_ = q.ReceiveAt(at) // An error means that another process has the UDP port.
		return nil
	}
	return q.ReceiveAt(netip.Addr{})
}
