//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A rawWC is struct ibv_wc.
type rawWC struct {
	id        uint64
	status    uint32
	opcode    uint32
	vendorErr uint32
	byteLen   uint32
	// imm has the immediate data in network byte order. After a SEND with invalidate, it
	// has the key of the window in host byte order.
	imm    [4]byte
	qpn    uint32
	srcQPN uint32
	flags  uint32
	_      [8]byte
}

// unusedOpcode stands for operations that package verbs does not have.
const unusedOpcode verbs.WCOpcode = 255

// convert copies a completion to wc. The caller sets wc.ID. If the request has failed,
// most fields of the completion are undefined (ibv_poll_cq(3)), and convert clears these
// fields in wc.
func (r *rawWC) convert(wc *verbs.WC) {
	if r.status != C.IBV_WC_SUCCESS {
		*wc = verbs.WC{Status: verbs.Status(r.status), QPN: r.qpn, VendorErr: r.vendorErr}
		return
	}
	wc.Status = verbs.StatusSuccess
	wc.Opcode = fromWCOpcode(r.opcode)
	wc.Flags = verbs.WCFlags(r.flags & (C.IBV_WC_GRH | C.IBV_WC_WITH_IMM | C.IBV_WC_WITH_INV))
	wc.ByteLen = r.byteLen
	switch {
	case r.flags&C.IBV_WC_WITH_IMM != 0:
		wc.Imm = binary.BigEndian.Uint32(r.imm[:])
	case r.flags&C.IBV_WC_WITH_INV != 0:
		wc.Imm = binary.NativeEndian.Uint32(r.imm[:])
	default:
		wc.Imm = 0
	}
	wc.QPN = r.qpn
	wc.SrcQPN = r.srcQPN
	wc.VendorErr = r.vendorErr
	wc.Time = 0
}

// fromWCOpcode converts an enum ibv_wc_opcode. In package verbs, the opcodes of receives
// have other numbers.
func fromWCOpcode(op uint32) verbs.WCOpcode {
	switch {
	case op == C.IBV_WC_RECV:
		return verbs.WCRecv
	case op == C.IBV_WC_RECV_RDMA_WITH_IMM:
		return verbs.WCRecvWriteImm
	case op <= C.IBV_WC_LOCAL_INV:
		return verbs.WCOpcode(op)
	}
	return unusedOpcode
}

// The build fails if rawWC and struct ibv_wc have different layouts.
const (
	_ = -(unsafe.Sizeof(rawWC{}) ^ C.sizeof_struct_ibv_wc)
	_ = -(unsafe.Offsetof(rawWC{}.status) ^ unsafe.Offsetof(C.struct_ibv_wc{}.status))
	_ = -(unsafe.Offsetof(rawWC{}.opcode) ^ unsafe.Offsetof(C.struct_ibv_wc{}.opcode))
	_ = -(unsafe.Offsetof(rawWC{}.vendorErr) ^ unsafe.Offsetof(C.struct_ibv_wc{}.vendor_err))
	_ = -(unsafe.Offsetof(rawWC{}.byteLen) ^ unsafe.Offsetof(C.struct_ibv_wc{}.byte_len))
	_ = -(unsafe.Offsetof(rawWC{}.qpn) ^ unsafe.Offsetof(C.struct_ibv_wc{}.qp_num))
	_ = -(unsafe.Offsetof(rawWC{}.srcQPN) ^ unsafe.Offsetof(C.struct_ibv_wc{}.src_qp))
	_ = -(unsafe.Offsetof(rawWC{}.flags) ^ unsafe.Offsetof(C.struct_ibv_wc{}.wc_flags))
)
