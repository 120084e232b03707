package verbs

// A PD is a protection domain. A QP can only use MRs, SRQs and AHs of its own domain.
// Any goroutine may call the methods of a PD.
type PD interface {
	// Device returns the device that the domain belongs to.
	Device() Device

	// Alloc maps new memory, zeroed and page-aligned, and registers it. The memory is
	// outside the Go heap. MR.Close unmaps it. The domain does not keep attr, which must
	// not be nil. The error is that of Access.Check, or ENOMEM if the process can not map
	// or lock so much memory (RLIMIT_MEMLOCK). Source: mmap(2), ibv_reg_mr(3).
	Alloc(attr *AllocAttr) (MR, error)
	// Register registers b, which has at least 1 byte. The caller owns b. Until
	// MR.Close, the caller must keep b alive, and b must not move to another address.
	// Memory of the Go heap is accepted by provider/soft; other providers may refuse it.
	// The errors are those of Alloc. Source: ibv_reg_mr(3).
	Register(b []byte, access Access) (MR, error)

	// CreateQP creates a queue pair in the RESET state. A zero in attr.Caps becomes 1
	// where a queue needs at least one entry, and sizes may be rounded up; QP.Caps
	// returns the result. The domain does not keep attr, which must not be nil. A device
	// may return ErrOverrun for a CQ that has been overrun. Source: ibv_create_qp(3).
	CreateQP(attr *QPInitAttr) (QP, error)
	// CreateSRQ creates a shared receive queue. The domain does not keep attr, which must
	// not be nil. Source: ibv_create_srq(3).
	CreateSRQ(attr *SRQAttr) (SRQ, error)
	// CreateAH creates an address handle. The domain does not keep attr, which must not be
	// nil. Source: ibv_create_ah(3).
	CreateAH(attr *AHAttr) (AH, error)

	// Close destroys the domain. It returns ErrBusy while an object that was created
	// from the domain is open. Source: ibv_dealloc_pd(3).
	Close() error
}

// AllocAttr has the parameters of PD.Alloc.
type AllocAttr struct {
	Size   int    // size in bytes, at least 1
	Access Access // access rights, as for PD.Register
	// HugePages asks for huge pages. If the system has none free, ordinary pages are
	// used.
	HugePages bool
}

// Access is a set of access rights. A memory region has the rights with which it is
// registered, and a QP has the rights that it gives its peer.
type Access uint32

// Access rights, with the bits of enum ibv_access_flags. AccessRemoteWrite and
// AccessRemoteAtomic can only be combined with AccessLocalWrite. The local device may
// always read the memory; there is no bit for that right. Source: ibv_reg_mr(3).
const (
	AccessLocalWrite   Access = 1 << 0 // the local device may write
	AccessRemoteWrite  Access = 1 << 1 // a peer may WRITE
	AccessRemoteRead   Access = 1 << 2 // a peer may READ
	AccessRemoteAtomic Access = 1 << 3 // a peer may use atomics
)

// AccessAll is the set of all access rights of this package.
const AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

// Check returns nil if memory can be registered with the rights a. Otherwise it returns
// a *ParamError.
func (a Access) Check() error {
	if a&^AccessAll != 0 {
		return &ParamError{Field: "access", Value: int64(a), Limit: int64(AccessAll), Reason: "unknown access right"}
	}
	// ibv_reg_mr(3): remote write and remote atomic require local write.
	if a&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && a&AccessLocalWrite == 0 {
		return &ParamError{Field: "access", Value: int64(a), Limit: int64(AccessAll), Reason: "remote write and remote atomic need local write"}
	}
	return nil
}

// An MR is a memory region: memory that is registered in a protection domain. Any
// goroutine may call its methods.
type MR interface {
	// PD returns the domain in which the memory is registered.
	PD() PD
	// Bytes returns the memory. The slice must not be used after Close.
	Bytes() []byte
	// Addr returns the virtual address of the first byte. An SGE, and a remote peer in
	// its requests, give a position in the region as a virtual address.
	Addr() uint64
	// LKey returns the key that an SGE contains. QPs of the same domain accept it.
	LKey() uint32
	// RKey returns the key for remote peers. Every peer that knows the key, and that is
	// connected to any QP of the same domain, may access the whole region within its
	// access rights: a key is not tied to the peer for which it was meant. The key
	// travels unencrypted. If peers must not reach each other's memory, their regions and
	// QPs have to be in different domains. How hard it is to guess a key depends on the
	// provider.
	RKey() uint32
	// Access returns the access rights with which the memory is registered.
	Access() Access
	// Close ends the registration: it makes both keys invalid, and waits until remote
	// operations that already use the memory have finished. The caller's own work
	// requests that use the memory must have completed before the call. Source:
	// ibv_dereg_mr(3).
	Close() error
}

// A Discarder is an MR that can return part of its memory to the system without being
// deregistered. The ability is optional: test for it with a type assertion. A device
// that pins memory can not have the ability, because the device would continue to use
// the old pages while the program already sees new ones.
type Discarder interface {
	// Discard returns memory to the system. The parameters are a range in the region: its
	// offset and its length, in bytes. Discard returns the pages that lie entirely within
	// the range. Afterwards these pages read as zero, and they occupy memory again when
	// they are used. During the call no work request may name the pages, and neither the
	// program nor a peer may access them. The error is a *ParamError if the range is not
	// in the region, a *FeatureError if this memory can not be discarded, or the error of
	// madvise(2). Source: madvise(2), MADV_DONTNEED.
	Discard(offset, length int) error
}

// An SGE is a scatter/gather entry: one piece of registered local memory. Its layout is
// that of struct ibv_sge.
type SGE struct {
	Addr   uint64 // virtual address of the first byte
	Length uint32 // length in bytes
	LKey   uint32 // MR.LKey of the region that has the memory
}

// SGEOf returns the entry for a part of mr: length bytes, beginning at offset. SGEOf does
// not check the bounds; the device checks them when it executes the work request.
func SGEOf(mr MR, offset, length int) SGE {
	return SGE{Addr: mr.Addr() + uint64(offset), Length: uint32(length), LKey: mr.LKey()}
}

// An AH is an address handle: the destination of datagrams of a UD QP. All QPs of its
// domain may use the handle, also at the same time. Before the caller closes the handle,
// all work requests that use it must have completed, and all QPs that have used it must
// be closed. Any goroutine may call its methods.
type AH interface {
	// Attr returns the attributes with which the handle was created.
	Attr() AHAttr
	// Close destroys the handle. Source: ibv_destroy_ah(3).
	Close() error
}

// AHAttr is an address vector: the destination of packets and the fields of their global
// routing header. Source: ibv_create_ah(3).
type AHAttr struct {
	DestGID      GID    // address of the peer
	SourceIndex  int    // index of the source address in PortAttr.GIDs
	FlowLabel    uint32 // flow label, 20 bits
	HopLimit     uint8  // hop limit, 0..255
	TrafficClass uint8  // traffic class, 0..255
	Port         uint8  // number of the local device port, from 1
}
