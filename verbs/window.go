package verbs

// An MW is a memory window of type 2B: a key for a part of a memory region. The peer of
// one queue pair may use the key, and nobody else.
//
// A window is free or bound. A new window is free. A work request OpBindMW binds a free
// window to bytes of a region, and to the queue pair on which the request was posted.
// The window becomes free again when one of these happens:
//
//   - a work request OpLocalInv on this queue pair
//   - a work request OpSendInv of this queue pair's peer
//   - Close, or the closing of the queue pair
//   - the state RESET of the queue pair; on some devices the window stays bound then
//
// # Order
//
// OpBindMW and OpLocalInv begin in the order of the send queue: after the earlier
// requests were sent, but without waiting for their completion. With SendFence they wait
// for earlier READs and atomics. Later requests of the same queue pair find the window
// bound or free. So a SEND that tells the peer the key may be posted together with the
// OpBindMW before it.
//
// When an OpSendInv has a completion at the receiver, the window is free already.
//
// # Errors
//
// An OpBindMW fails with StatusMWBindErr if the window is bound, if the region does not
// have AccessMWBind, if the bytes are not in the region, or if the window has
// AccessRemoteWrite or AccessRemoteAtomic and the region lacks AccessLocalWrite. If an
// OpBindMW has failed or was flushed, some devices can not bind the window again, and it
// should be closed.
//
// An OpLocalInv or OpSendInv fails if the key is not of a window that is bound to the
// queue pair. Keys of regions can not be invalidated. OpLocalInv fails with
// StatusLocQPOpErr or StatusMWBindErr. For OpSendInv the status has FaultRemote, and both
// queue pairs fail.
//
// Any goroutine may call the methods. Source: ibv_alloc_mw(3), ibv_post_send(3); IBTA
// vol. 1, 10.6.7 and 9.4.1.1.3.
type MW interface {
	// PD returns the domain of the window.
	PD() PD
	// RKey returns the key of the last bind that was posted, or the key of the free
	// window. The upper 24 bits change only when the queue pair of the last bind is
	// closed, on some devices. The key is valid only while the window is bound.
	RKey() uint32
	// Close unbinds the window and destroys it. Before the call, all posted requests that
	// name the window must have completed. Source: ibv_dealloc_mw(3).
	Close() error
}

// MWBind says what a work request OpBindMW binds. SendWR.RKey is the key that the window
// gets: its upper 24 bits must be the same as in MW.RKey, and the caller chooses the
// lower 8 bits. IncRKey returns a key that differs from the last one, so that a peer can
// not use an old key again. The request has no SGEs and no inline data.
type MWBind struct {
	MW     MW     // window, of the same domain as the queue pair
	MR     MR     // region with AccessMWBind, of the same domain
	Addr   uint64 // virtual address of the first byte, in the region
	Length uint64 // number of bytes, at least 1
	// Access is what the peer may do: AccessRemoteRead, AccessRemoteWrite and
	// AccessRemoteAtomic. The queue pair must allow it too; see QPAttr.Access.
	Access Access
}

// IncRKey returns a key that has the next value in its lower 8 bits. After 255 comes 0.
// Source: ibv_inc_rkey(3).
func IncRKey(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

// windowRights are the access rights that a window can have.
const windowRights = AccessRemoteRead | AccessRemoteWrite | AccessRemoteAtomic

// check checks the arguments of a bind. The parameter key is the key that the window
// gets.
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
