package verbs

// A PD is a protection domain: QPs, MRs, SRQs and AHs work together only
// within one. Its methods may be called from any goroutine.
type PD interface {
	// Device is the device the domain belongs to.
	Device() Device

	// Alloc maps new memory, zeroed and page-aligned, and registers it. The
	// memory lives outside the Go heap until MR.Close.
	Alloc(attr *AllocAttr) (MR, error)
	// Register registers b, which the caller keeps alive and unmoved until
	// MR.Close. Memory of the Go heap will do for the soft device only; other
	// providers may refuse it. Source: ibv_reg_mr(3).
	Register(b []byte, access Access) (MR, error)

	// CreateQP makes a queue pair in the RESET state. Caps of zero are raised
	// to 1 where a queue needs one, and may be rounded up: QP.Caps has what was
	// given. Source: ibv_create_qp(3).
	CreateQP(attr *QPInitAttr) (QP, error)
	// CreateSRQ makes a shared receive queue. Source: ibv_create_srq(3).
	CreateSRQ(attr *SRQAttr) (SRQ, error)
	// CreateAH makes an address handle. Source: ibv_create_ah(3).
	CreateAH(attr *AHAttr) (AH, error)

	// Close ends the domain, or returns ErrBusy while anything made from it is
	// open. Source: ibv_dealloc_pd(3).
	Close() error
}

// AllocAttr says what PD.Alloc is to map.
type AllocAttr struct {
	Size   int    // bytes, more than 0
	Access Access // as for PD.Register
	// HugePages asks for huge pages, and is content with ordinary ones where
	// the system has none.
	HugePages bool
}

// Access is a set of rights on registered memory, or on a QP.
type Access uint32

// Access rights, with the bits of enum ibv_access_flags. AccessRemoteWrite and
// AccessRemoteAtomic need AccessLocalWrite beside them. Local reading is always
// allowed.
const (
	AccessLocalWrite   Access = 1 << 0
	AccessRemoteWrite  Access = 1 << 1
	AccessRemoteRead   Access = 1 << 2
	AccessRemoteAtomic Access = 1 << 3
)

// AccessAll is every right there is.
const AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

// Check reports whether the combination is one that memory can be registered
// with, as a *ParamError.
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

// An MR is registered memory.
type MR interface {
	// PD is the domain the memory is registered in.
	PD() PD
	// Bytes is the memory itself. It must not be used after Close.
	Bytes() []byte
	// Addr is the virtual address of the first byte, as SGEs and remote peers
	// name it.
	Addr() uint64
	// LKey is the key for SGEs of the same domain.
	LKey() uint32
	// RKey is the key to hand to a peer. Every peer that knows it, on any connection of
	// the same domain, may do to the whole region what the access rights allow: a key is
	// not tied to the peer that it was given to. The key travels unencrypted. Regions for
	// peers that must not reach each other's memory belong in different domains. How hard
	// a key is to guess depends on the provider.
	RKey() uint32
	// Access returns the rights given at registration.
	Access() Access
	// Close ends the registration, once no remote operation is inside the
	// memory; from then on both keys are refused. Work requests that name the
	// memory must have completed. Source: ibv_dereg_mr(3).
	Close() error
}

// A Discarder is an MR that can give part of its memory back to the system while it
// stays registered. Not every device can: a device that pins memory would go on using
// pages that the program no longer sees.
type Discarder interface {
	// Discard gives back the whole pages among the length bytes from offset on. The pages
	// read as zero afterwards, and take memory again when they are used. During the call
	// no work request may name the pages and nothing else may use them. The error is a
	// *ParamError if the bytes are not in the region, a *FeatureError if this memory can
	// not be given back, or the error of madvise(2). Source: madvise(2), MADV_DONTNEED.
	Discard(offset, length int) error
}

// An SGE names one piece of registered local memory. Its layout is that of
// struct ibv_sge.
type SGE struct {
	Addr   uint64 // virtual address
	Length uint32 // bytes
	LKey   uint32
}

// SGEOf names length bytes of mr from offset on. It does not check the bounds:
// the device does, when it carries out the work request.
func SGEOf(mr MR, offset, length int) SGE {
	return SGE{Addr: mr.Addr() + uint64(offset), Length: uint32(length), LKey: mr.LKey()}
}

// An AH says where datagrams of a UD QP go. It may be used by several work
// requests and QPs of its domain at a time, and is closed after them.
type AH interface {
	// Attr returns what the handle was made with.
	Attr() AHAttr
	// Close ends the handle. Source: ibv_destroy_ah(3).
	Close() error
}

// AHAttr is an address vector: where packets go and what they carry in their
// routing header. Source: ibv_create_ah(3).
type AHAttr struct {
	DestGID      GID
	SourceIndex  int // index into PortAttr.GIDs
	FlowLabel    uint32
	HopLimit     uint8
	TrafficClass uint8
	Port         uint8 // local port, from 1
}
