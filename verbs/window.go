package verbs

// An MW is a memory window of type 2B: a key for a part of a memory region. Only the peer
// of one queue pair may use the key.
//
// A window is free or bound. A new window is free. A work request OpBindMW binds a free
// window to bytes of a region, and to the queue pair on which the request was posted.
// Each of these events makes the window free again:
//
//   - A work request OpLocalInv is executed on this queue pair.
//   - A work request OpSendInv arrives from the peer of this queue pair.
//   - The window or the queue pair is closed.
//   - The queue pair goes to the state RESET. On some devices the window stays bound.
//
// # Order
//
// The device starts OpBindMW and OpLocalInv in the order of the send queue: after the
// earlier requests were sent, but possibly before they have completed. With SendFence,
// OpBindMW and OpLocalInv wait until earlier READs and atomics have completed. When the
// device executes later requests of the same queue pair, the window is already bound or
// free. So a SEND that tells the peer the key may be posted together with the OpBindMW,
// after the OpBindMW.
//
// When the receiver gets the completion of an OpSendInv, the window is already free.
//
// # Errors
//
// An OpBindMW fails with StatusMWBindErr in these cases:
//
//   - The window is bound.
//   - The region does not have AccessMWBind.
//   - The bytes are not in the region.
//   - The window has AccessRemoteWrite or AccessRemoteAtomic, and the region does not
//     have AccessLocalWrite.
//
// After an OpBindMW has failed or was flushed, some devices can not bind the window
// again. The window should then be closed.
//
// An OpLocalInv or OpSendInv fails if the key is not that of a window that is bound to
// the queue pair. Keys of regions can not be invalidated. OpLocalInv fails with
// StatusLocQPOpErr or StatusMWBindErr. OpSendInv fails with a status that has
// FaultRemote, and both queue pairs go to the error state.
//
// Any goroutine may call the methods of an MW. Source: ibv_alloc_mw(3), ibv_post_send(3);
// IBTA vol. 1, 10.6.7 and 9.4.1.1.3.
type MW interface {
	// PD returns the protection domain of the window.
	PD() PD
	// RKey returns the key that the last posted OpBindMW has given to the window. Before
	// the first OpBindMW, RKey returns the key of the new window. Peers can use the key
	// only while the window is bound.
	//
	// On some devices, the window gets a new key when the queue pair of the last OpBindMW
	// is closed. Otherwise the upper 24 bits of the key never change.
	RKey() uint32
	// Close unbinds the window and destroys it. Before the call, all posted requests that
	// name the window must have completed. Source: ibv_dealloc_mw(3).
	Close() error
}

// MWBind has the parameters of a work request OpBindMW. The field SendWR.RKey is the key
// that the window gets. The upper 24 bits of this key must be the same as in MW.RKey, and
// the caller chooses the lower 8 bits. With IncRKey, each bind gets another key, so that
// a peer can not use an old key. A request OpBindMW has no SGEs and no inline data.
type MWBind struct {
	MW     MW     // memory window in the domain of the queue pair
	MR     MR     // memory region with AccessMWBind, in the same domain
	Addr   uint64 // virtual address of the first byte, within the region
	Length uint64 // number of bytes, at least 1
	// Access has the access rights of the peer: AccessRemoteRead, AccessRemoteWrite and
	// AccessRemoteAtomic. The queue pair must allow the access too; see QPAttr.Access.
	Access Access
}

// IncRKey returns the key with the lower 8 bits increased by 1. The value 255 becomes 0.
// Source: ibv_inc_rkey(3).
func IncRKey(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

// windowRights has the access rights that a memory window can have.
const windowRights = AccessRemoteRead | AccessRemoteWrite | AccessRemoteAtomic

// check checks the parameters of a bind. The parameter key is the new key of the window.
func (b *MWBind) check(key uint32) error {
	switch {
	case b == nil:
		return &ParamError{Field: "bind", NotNumber: true, Reason: "missing"}
	case b.MW == nil:
		return &ParamError{Field: "memory window", NotNumber: true, Reason: "missing"}
	case b.MR == nil:
		return &ParamError{Field: "memory region", NotNumber: true, Reason: "missing"}
	case b.Length == 0:
		return &ParamError{Field: "window bytes", Reason: "must be at least 1"}
	case b.Access&^windowRights != 0:
		return &ParamError{Field: "window access", Value: int64(b.Access), Limit: int64(windowRights), Reason: "not a remote access right"}
	case (key^b.MW.RKey())&^0xff != 0:
		return &ParamError{Field: "window key", Value: int64(key), Limit: int64(b.MW.RKey() | 0xff), Reason: "the upper 24 bits are not those of the window"}
	}
	return nil
}
