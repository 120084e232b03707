package verbs

// A PD is a protection domain. A QP can only use MRs, SRQs and AHs of its own domain.
// Any goroutine may call its methods.
type PD interface {
	// Device returns the device that the domain belongs to.
	Device() Device

	// Alloc maps and registers new memory, zeroed and page-aligned, outside the Go heap.
	// MR.Close unmaps the memory. The attr must not be nil and is not kept. The error is
	// that of Access.Check, or ENOMEM, for example because of RLIMIT_MEMLOCK. Source:
	// mmap(2), ibv_reg_mr(3).
	Alloc(attr *AllocAttr) (MR, error)
	// Register registers b, which has at least 1 byte. The caller owns b, and must keep
	// it alive and in place until MR.Close. Providers other than soft may refuse memory
	// of the Go heap. The errors are those of Alloc. Source: ibv_reg_mr(3).
	Register(b []byte, access Access) (MR, error)

	// CreateQP creates a queue pair in the RESET state. It may round up the sizes in
	// attr.Caps: see QP.Caps. The attr must not be nil and is not kept. If a CQ has
	// overrun, the error may be ErrOverrun. Source: ibv_create_qp(3).
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

// Access is a set of access rights, of a memory region or of a QP's peer.
type Access uint32

// Access rights, with the bits of enum ibv_access_flags. AccessRemoteWrite and
// AccessRemoteAtomic need AccessLocalWrite. The local device may always read the memory.
// Source: ibv_reg_mr(3).
const (
	AccessLocalWrite   Access = 1 << 0 // the local device may write
	AccessRemoteWrite  Access = 1 << 1 // a peer may WRITE
	AccessRemoteRead   Access = 1 << 2 // a peer may READ
	AccessRemoteAtomic Access = 1 << 3 // a peer may use atomics
)

// AccessAll is the set of all access rights of this package.
const AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

// Check returns nil if memory can be registered with these access rights, and otherwise a
// *ParamError.
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
	// Addr returns the virtual address of the first byte. SGEs and remote peers name
	// places in the region by virtual addresses.
	Addr() uint64
	// LKey returns the key that an SGE contains. QPs of the same domain accept it.
	LKey() uint32
	// RKey returns the key for remote peers. Any peer of a QP of the domain that knows
	// the key may use the region, as far as the access rights permit. Peers that must
	// not reach each other's memory need different domains.
	//
	// The key travels unencrypted. How hard the key is to guess depends on the provider.
	RKey() uint32
	// Access returns the access rights with which the memory is registered.
	Access() Access
	// Close ends the registration, makes both keys invalid, and waits for remote
	// operations on the memory to finish. The caller's own work requests must have
	// completed before the call. Source: ibv_dereg_mr(3).
	Close() error
}

// A Discarder is an MR that can return part of its memory to the system. Use a type
// assertion to find out whether an MR is a Discarder. An MR in pinned memory is not a
// Discarder.
type Discarder interface {
	// Discard returns the whole pages in a range of the region to the system. The offset
	// and the length are in bytes. During the call, neither this program nor a device
	// may use these pages. The pages then read as zero, and occupy memory again when
	// they are used.
	//
	// If the range is outside the region, the error is a *ParamError. If the memory can
	// not be discarded, the error is a *FeatureError. Other errors are those of
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

// SGEOf returns the entry for a part of mr. The parameters offset and length are in
// bytes. The device checks the bounds when it executes the work request.
func SGEOf(mr MR, offset, length int) SGE {
	return SGE{Addr: mr.Addr() + uint64(offset), Length: uint32(length), LKey: mr.LKey()}
}

// An AH is an address handle: the destination of datagrams. All UD QPs of its domain may
// use the handle at the same time. Any goroutine may call the methods.
//
// Call Close only after all work requests that name the handle have completed, and all
// QPs that used the handle are closed.
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
