package verbs

// A PD is a protection domain. A QP can only use MRs, SRQs and AHs of its own domain. Any
// goroutine may call the methods of a PD.
type PD interface {
	// Device returns the device of the protection domain.
	Device() Device

	// Alloc maps new memory outside the Go heap and registers the memory. The memory is
	// zeroed and page-aligned. MR.Close unmaps the memory. The attr must not be nil. The
	// provider does not use attr after the call.
	//
	// If the access rights are not valid, Alloc returns the error of Access.Check. If there
	// is not enough memory, or if the memory would exceed RLIMIT_MEMLOCK, the error matches
	// ENOMEM, and with the provider soft also ErrNoResources. Source: mmap(2), ibv_reg_mr(3).
	Alloc(attr *AllocAttr) (MR, error)
	// Register registers the memory of b, which must have at least 1 byte. The caller still
	// owns b. Until MR.Close the memory must stay allocated at the same address. The
	// provider soft accepts memory of the Go heap. Other providers may refuse such memory.
	// Register returns the same errors as Alloc. Source: ibv_reg_mr(3).
	Register(b []byte, access Access) (MR, error)
	// RegisterFaulting does what Register does, for memory whose pages may be missing when
	// the device accesses them. An example is the mapping of a file that becomes shorter.
	//
	// A device that pins memory needs the pages when it registers them, and then they can
	// not go missing. In the provider soft an operation that finds a page missing fails, and
	// the process does not get SIGBUS. If the page belongs to memory of the requester or to
	// a receive buffer, the completion status is StatusLocProtErr. If the page belongs to
	// memory of the responder, the completion status is StatusRemOpErr. Each access to the
	// memory costs a little more than with Register.
	RegisterFaulting(b []byte, access Access) (MR, error)
	// AllocMW creates a memory window of type 2. The new window is not bound. If
	// Caps.MemoryWindows is false, the error is a *FeatureError. Source: ibv_alloc_mw(3).
	AllocMW() (MW, error)

	// CreateQP creates a queue pair in the RESET state. The device may round up the sizes
	// in attr.Caps, and QP.Caps returns the actual sizes. The attr must not be nil. The
	// provider does not use attr after the call. If a CQ in attr is overrun, the error may
	// be ErrOverrun. Source: ibv_create_qp(3).
	CreateQP(attr *QPInitAttr) (QP, error)
	// CreateSRQ creates a shared receive queue. The attr must not be nil. The provider does
	// not use attr after the call. Source: ibv_create_srq(3).
	CreateSRQ(attr *SRQAttr) (SRQ, error)
	// CreateAH creates an address handle. The attr must not be nil. The provider does not
	// use attr after the call. Source: ibv_create_ah(3).
	CreateAH(attr *AHAttr) (AH, error)

	// Close destroys the protection domain. Close returns ErrBusy while an object of the
	// domain is open. Source: ibv_dealloc_pd(3).
	Close() error
}

// AllocAttr has the parameters of PD.Alloc.
type AllocAttr struct {
	Size   int    // size in bytes, at least 1
	Access Access // access rights, as in PD.Register
	// HugePages requests huge pages. If no huge pages are free, the memory has ordinary
	// pages.
	HugePages bool
}

// Access is a set of access rights. Memory regions, memory windows and the peers of QPs
// have access rights.
type Access uint32

// Access rights, with the bits of enum ibv_access_flags. A memory region with
// AccessRemoteWrite or AccessRemoteAtomic must also have AccessLocalWrite. The local
// device may always read the memory. Source: ibv_reg_mr(3).
const (
	AccessLocalWrite   Access = 1 << 0 // the local device may write to the memory
	AccessRemoteWrite  Access = 1 << 1 // a peer may use RDMA WRITE
	AccessRemoteRead   Access = 1 << 2 // a peer may use RDMA READ
	AccessRemoteAtomic Access = 1 << 3 // a peer may use atomic operations
	// AccessMWBind allows memory windows to be bound to the region. The region itself needs
	// no remote access rights for that, because each window has its own. Only devices with
	// Caps.MemoryWindows accept AccessMWBind.
	AccessMWBind Access = 1 << 4
)

// AccessAll is the set of all access rights except AccessMWBind, which only devices with
// memory windows accept.
const AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

// Check returns nil if memory can be registered with these access rights. Otherwise it
// returns a *ParamError.
func (a Access) Check() error {
	if a&^(AccessAll|AccessMWBind) != 0 {
		return &ParamError{Field: "access", Value: int64(a), Limit: int64(AccessAll | AccessMWBind), Reason: "unknown access right"}
	}
	// According to ibv_reg_mr(3), remote write and remote atomic require local write.
	if a&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && a&AccessLocalWrite == 0 {
		return &ParamError{Field: "access", Value: int64(a), Limit: int64(AccessAll), Reason: "remote write and remote atomic need local write"}
	}
	return nil
}

// An MR is a memory region: memory that is registered in a protection domain. Any
// goroutine may call the methods of an MR.
type MR interface {
	// PD returns the domain in which the memory is registered.
	PD() PD
	// Bytes returns the memory. The slice must not be used after Close.
	Bytes() []byte
	// Addr returns the virtual address of the first byte. SGEs and remote peers refer to
	// the memory by virtual addresses.
	Addr() uint64
	// LKey returns the local key, which SGEs contain. The key is valid for all QPs of the
	// same domain.
	LKey() uint32
	// RKey returns the remote key. Any peer of the domain's QPs that knows the key may
	// use the region, as far as the access rights permit. For peers that must not reach
	// each other's memory, use memory windows or different domains.
	//
	// The key travels unencrypted. How hard the key is to guess depends on the provider.
	RKey() uint32
	// Access returns the access rights with which the memory is registered.
	Access() Access
	// Discard returns pages to the operating system. The offset and the length are in
	// bytes. Discard returns only the pages that lie completely in this range. During the
	// call, neither this program nor a device may use these pages. After the call the pages
	// read as zero. A page occupies memory again when it is used.
	//
	// If the range is outside the region, the error is a *ParamError. If the memory can not
	// be discarded, for example because the device has pinned it, the error is a
	// *FeatureError. An error of madvise(2) is also possible. Source: madvise(2),
	// MADV_DONTNEED.
	Discard(offset, length int) error
	// Close ends the registration, makes both keys invalid, and waits until remote
	// operations on the memory have finished. Before the call, the caller's own work
	// requests on this memory must have completed. While a memory window is bound to the
	// region, Close returns ErrBusy. Source: ibv_dereg_mr(3), ibv_alloc_mw(3).
	Close() error
}

// An SGE is a scatter/gather entry: one piece of registered local memory. Its layout is
// the same as in struct ibv_sge.
type SGE struct {
	Addr   uint64 // virtual address of the first byte
	Length uint32 // length in bytes
	LKey   uint32 // local key of the region; see MR.LKey
}

// SGEOf returns the scatter/gather entry for a part of mr. The offset and the length are
// in bytes. SGEOf does not check the range: the device checks the range when it executes
// the work request.
func SGEOf(mr MR, offset, length int) SGE {
	return SGE{Addr: mr.Addr() + uint64(offset), Length: uint32(length), LKey: mr.LKey()}
}

// An AH is an address handle: the destination of datagrams. All UD QPs of the handle's
// domain may use the handle at the same time. Any goroutine may call the methods of an
// AH.
//
// Before Close, all work requests that name the handle must have completed, and all QPs
// that used the handle must be closed. Providers do not check that.
type AH interface {
	// Attr returns the attributes with which the handle was created.
	Attr() AHAttr
	// Close destroys the handle. Source: ibv_destroy_ah(3).
	Close() error
}

// AHAttr has the destination address of packets, and the fields of their global routing
// header. Source: ibv_create_ah(3).
type AHAttr struct {
	DestGID      GID    // address of the peer
	SourceIndex  int    // index of the source address in PortAttr.GIDs
	FlowLabel    uint32 // flow label, 20 bits
	HopLimit     uint8  // hop limit, 0..255
	TrafficClass uint8  // traffic class, 0..255
	Port         uint8  // number of the local device port, from 1
}
