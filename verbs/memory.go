package verbs

// A PD is a protection domain. A QP can only use MRs, SRQs and AHs of its own domain.
// Any goroutine may call its methods.
type PD interface {
	// Device returns the device that the domain belongs to.
	Device() Device

	// Alloc maps new memory outside the Go heap and registers it. The memory is zeroed
	// and page-aligned. MR.Close unmaps it. The attr must not be nil and is not kept.
	//
	// If the access rights are not valid, Alloc returns the error of Access.Check. If
	// there is not enough memory, the error is ENOMEM. RLIMIT_MEMLOCK can cause that
	// too. Source: mmap(2), ibv_reg_mr(3).
	Alloc(attr *AllocAttr) (MR, error)
	// Register registers b, which must have at least 1 byte. The caller still owns b,
	// and must keep it alive and in place until MR.Close. The provider soft accepts
	// memory of the Go heap; other providers may refuse it. Register returns the same
	// errors as Alloc. Source: ibv_reg_mr(3).
	Register(b []byte, access Access) (MR, error)
	// AllocMW creates a memory window of type 2, which is not bound. On a device without
	// Caps.MemoryWindows, the error is a *FeatureError. Source: ibv_alloc_mw(3).
	AllocMW() (MW, error)

	// CreateQP creates a queue pair in the RESET state. The device may round up the
	// sizes in attr.Caps, and QP.Caps returns the actual sizes. The attr must not be nil
	// and is not kept. If a CQ has overrun, the error may be ErrOverrun. Source:
	// ibv_create_qp(3).
	CreateQP(attr *QPInitAttr) (QP, error)
	// CreateSRQ creates a shared receive queue. The attr must not be nil and is not
	// kept. Source: ibv_create_srq(3).
	CreateSRQ(attr *SRQAttr) (SRQ, error)
	// CreateAH creates an address handle. The attr must not be nil and is not kept.
	// Source: ibv_create_ah(3).
	CreateAH(attr *AHAttr) (AH, error)

	// Close destroys the domain. It returns ErrBusy while an object of the domain is
	// open. Source: ibv_dealloc_pd(3).
	Close() error
}

// AllocAttr has the parameters of PD.Alloc.
type AllocAttr struct {
	Size   int    // size in bytes, at least 1
	Access Access // access rights, as for PD.Register
	// HugePages asks for huge pages. If none are free, the memory has ordinary pages.
	HugePages bool
}

// Access is a set of access rights. A memory region has access rights, and so has the
// peer of a QP.
type Access uint32

// Access rights, with the bits of enum ibv_access_flags. AccessRemoteWrite and
// AccessRemoteAtomic need AccessLocalWrite. The local device may always read the memory.
// Source: ibv_reg_mr(3).
const (
	AccessLocalWrite   Access = 1 << 0 // the local device may write
	AccessRemoteWrite  Access = 1 << 1 // a peer may WRITE
	AccessRemoteRead   Access = 1 << 2 // a peer may READ
	AccessRemoteAtomic Access = 1 << 3 // a peer may use atomics
	// AccessMWBind allows that memory windows are bound to the region. The region needs no
	// remote rights: a window has its own. Only devices with Caps.MemoryWindows accept it.
	AccessMWBind Access = 1 << 4
)

// AccessAll is the set of all access rights except AccessMWBind.
const AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

// Check returns nil if memory can be registered with these access rights. Otherwise it
// returns a *ParamError.
func (a Access) Check() error {
	if a&^(AccessAll|AccessMWBind) != 0 {
		return &ParamError{Field: "access", Value: int64(a), Limit: int64(AccessAll | AccessMWBind), Reason: "unknown access right"}
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
	// Addr returns the virtual address of the first byte. SGEs and remote peers use
	// virtual addresses to refer to the memory.
	Addr() uint64
	// LKey returns the local key, which SGEs contain. It is valid for all QPs of the
	// same domain.
	LKey() uint32
	// RKey returns the remote key. Any peer of the domain's QPs that knows the key may
	// use the region, as far as the access rights permit. For peers that must not reach
	// each other's memory, use memory windows or different domains.
	//
	// The key travels unencrypted. How hard it is to guess depends on the provider.
	RKey() uint32
	// Access returns the access rights with which the memory is registered.
	Access() Access
	// Close ends the registration, makes both keys invalid, and waits until remote
	// operations on the memory have finished. Before the call, the caller's own work
	// requests on this memory must have completed. While a memory window is bound to the
	// region, Close returns ErrBusy. Source: ibv_dereg_mr(3), ibv_alloc_mw(3).
	Close() error
}

// A FaultRegisterer is a PD that can register memory whose pages may be missing at an
// access, such as a mapping of a file that becomes shorter. Use a type assertion to find
// out whether a PD is a FaultRegisterer. Devices that pin the memory do not need it.
type FaultRegisterer interface {
	// RegisterFaulting is PD.Register for such memory. If the device finds a page
	// missing, the operation fails, and the process does not get SIGBUS. The status is
	// StatusLocProtErr for memory of the requester or a receive buffer, and
	// StatusRemOpErr for memory of the responder. Each access costs a little more than
	// with Register.
	RegisterFaulting(b []byte, access Access) (MR, error)
}

// A Discarder is an MR that can return part of its memory to the system. Use a type
// assertion to find out whether an MR is a Discarder. Pinned memory can not be returned.
type Discarder interface {
	// Discard returns pages to the system. The offset and the length are in bytes.
	// Discard takes only the pages that lie completely in this range. During the call,
	// neither this program nor a device may use these pages. Afterwards they read as
	// zero, and occupy memory again when they are used.
	//
	// If the range is outside the region, the error is a *ParamError. If the memory can
	// not be discarded, the error is a *FeatureError. It can also be an error of
	// madvise(2). Source: madvise(2), MADV_DONTNEED.
	Discard(offset, length int) error
}

// An SGE is a scatter/gather entry: one piece of registered local memory. Its layout is
// the same as in struct ibv_sge.
type SGE struct {
	Addr   uint64 // virtual address of the first byte
	Length uint32 // length in bytes
	LKey   uint32 // MR.LKey of the region
}

// SGEOf returns the entry for a part of mr. The offset and the length are in bytes.
// SGEOf does not check them: the device does that when it executes the work request.
func SGEOf(mr MR, offset, length int) SGE {
	return SGE{Addr: mr.Addr() + uint64(offset), Length: uint32(length), LKey: mr.LKey()}
}

// An AH is an address handle: the destination of datagrams. All UD QPs of its domain may
// use it at the same time. Any goroutine may call its methods.
//
// Before Close, all work requests that name the handle must have completed, and all QPs
// that used the handle must be closed.
type AH interface {
	// Attr returns the attributes with which the handle was created.
	Attr() AHAttr
	// Close destroys the handle. Source: ibv_destroy_ah(3).
	Close() error
}

// AHAttr is the address to which packets are sent, and the fields of their global
// routing header. Source: ibv_create_ah(3).
type AHAttr struct {
	DestGID      GID    // address of the peer
	SourceIndex  int    // index of the source address in PortAttr.GIDs
	FlowLabel    uint32 // flow label, 20 bits
	HopLimit     uint8  // hop limit, 0..255
	TrafficClass uint8  // traffic class, 0..255
	Port         uint8  // number of the local device port, from 1
}
