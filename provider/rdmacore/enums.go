//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Packages verbs and cm use the numbers of the C enumerations. Each line below compiles
// only if its two numbers are equal.
const (
	_ = -uint(verbs.OpWrite ^ C.IBV_WR_RDMA_WRITE)
	_ = -uint(verbs.OpWriteImm ^ C.IBV_WR_RDMA_WRITE_WITH_IMM)
	_ = -uint(verbs.OpSend ^ C.IBV_WR_SEND)
	_ = -uint(verbs.OpSendImm ^ C.IBV_WR_SEND_WITH_IMM)
	_ = -uint(verbs.OpRead ^ C.IBV_WR_RDMA_READ)
	_ = -uint(verbs.OpCompareSwap ^ C.IBV_WR_ATOMIC_CMP_AND_SWP)
	_ = -uint(verbs.OpFetchAdd ^ C.IBV_WR_ATOMIC_FETCH_AND_ADD)
	_ = -uint(verbs.OpLocalInv ^ C.IBV_WR_LOCAL_INV)
	_ = -uint(verbs.OpBindMW ^ C.IBV_WR_BIND_MW)
	_ = -uint(verbs.OpSendInv ^ C.IBV_WR_SEND_WITH_INV)

	_ = -uint(verbs.SendFence ^ C.IBV_SEND_FENCE)
	_ = -uint(verbs.SendSignaled ^ C.IBV_SEND_SIGNALED)
	_ = -uint(verbs.SendSolicited ^ C.IBV_SEND_SOLICITED)
	_ = -uint(verbs.SendInline ^ C.IBV_SEND_INLINE)

	_ = -uint(verbs.AccessLocalWrite ^ C.IBV_ACCESS_LOCAL_WRITE)
	_ = -uint(verbs.AccessRemoteWrite ^ C.IBV_ACCESS_REMOTE_WRITE)
	_ = -uint(verbs.AccessRemoteRead ^ C.IBV_ACCESS_REMOTE_READ)
	_ = -uint(verbs.AccessRemoteAtomic ^ C.IBV_ACCESS_REMOTE_ATOMIC)
	_ = -uint(verbs.AccessMWBind ^ C.IBV_ACCESS_MW_BIND)

	_ = -uint(verbs.WCSend ^ C.IBV_WC_SEND)
	_ = -uint(verbs.WCWrite ^ C.IBV_WC_RDMA_WRITE)
	_ = -uint(verbs.WCRead ^ C.IBV_WC_RDMA_READ)
	_ = -uint(verbs.WCCompareSwap ^ C.IBV_WC_COMP_SWAP)
	_ = -uint(verbs.WCFetchAdd ^ C.IBV_WC_FETCH_ADD)
	_ = -uint(verbs.WCBindMW ^ C.IBV_WC_BIND_MW)
	_ = -uint(verbs.WCLocalInv ^ C.IBV_WC_LOCAL_INV)
	_ = -uint(verbs.WCWithGRH ^ C.IBV_WC_GRH)
	_ = -uint(verbs.WCWithImm ^ C.IBV_WC_WITH_IMM)
	_ = -uint(verbs.WCWithInv ^ C.IBV_WC_WITH_INV)

	_ = -uint(verbs.StatusSuccess ^ C.IBV_WC_SUCCESS)
	_ = -uint(verbs.StatusLocLenErr ^ C.IBV_WC_LOC_LEN_ERR)
	_ = -uint(verbs.StatusLocQPOpErr ^ C.IBV_WC_LOC_QP_OP_ERR)
	_ = -uint(verbs.StatusLocProtErr ^ C.IBV_WC_LOC_PROT_ERR)
	_ = -uint(verbs.StatusWRFlushErr ^ C.IBV_WC_WR_FLUSH_ERR)
	_ = -uint(verbs.StatusMWBindErr ^ C.IBV_WC_MW_BIND_ERR)
	_ = -uint(verbs.StatusBadRespErr ^ C.IBV_WC_BAD_RESP_ERR)
	_ = -uint(verbs.StatusRemInvReqErr ^ C.IBV_WC_REM_INV_REQ_ERR)
	_ = -uint(verbs.StatusRemAccessErr ^ C.IBV_WC_REM_ACCESS_ERR)
	_ = -uint(verbs.StatusRemOpErr ^ C.IBV_WC_REM_OP_ERR)
	_ = -uint(verbs.StatusRetryExcErr ^ C.IBV_WC_RETRY_EXC_ERR)
	_ = -uint(verbs.StatusRNRRetryExcErr ^ C.IBV_WC_RNR_RETRY_EXC_ERR)
	_ = -uint(verbs.StatusGeneralErr ^ C.IBV_WC_GENERAL_ERR)

	_ = -uint(verbs.QPTypeRC ^ C.IBV_QPT_RC)
	_ = -uint(verbs.QPTypeUD ^ C.IBV_QPT_UD)
	_ = -uint(verbs.StateReset ^ C.IBV_QPS_RESET)
	_ = -uint(verbs.StateInit ^ C.IBV_QPS_INIT)
	_ = -uint(verbs.StateRTR ^ C.IBV_QPS_RTR)
	_ = -uint(verbs.StateRTS ^ C.IBV_QPS_RTS)
	_ = -uint(verbs.StateSQD ^ C.IBV_QPS_SQD)
	_ = -uint(verbs.StateSQE ^ C.IBV_QPS_SQE)
	_ = -uint(verbs.StateError ^ C.IBV_QPS_ERR)
	_ = -uint(verbs.MTU256 ^ C.IBV_MTU_256)
	_ = -uint(verbs.MTU4096 ^ C.IBV_MTU_4096)
	_ = -uint(verbs.PortDown ^ C.IBV_PORT_DOWN)
	_ = -uint(verbs.PortActive ^ C.IBV_PORT_ACTIVE)

	_ = -uint(verbs.AttrState ^ C.IBV_QP_STATE)
	_ = -uint(verbs.AttrAccess ^ C.IBV_QP_ACCESS_FLAGS)
	_ = -uint(verbs.AttrPort ^ C.IBV_QP_PORT)
	_ = -uint(verbs.AttrQKey ^ C.IBV_QP_QKEY)
	_ = -uint(verbs.AttrAV ^ C.IBV_QP_AV)
	_ = -uint(verbs.AttrPathMTU ^ C.IBV_QP_PATH_MTU)
	_ = -uint(verbs.AttrTimeout ^ C.IBV_QP_TIMEOUT)
	_ = -uint(verbs.AttrRetryCount ^ C.IBV_QP_RETRY_CNT)
	_ = -uint(verbs.AttrRNRRetry ^ C.IBV_QP_RNR_RETRY)
	_ = -uint(verbs.AttrRQPSN ^ C.IBV_QP_RQ_PSN)
	_ = -uint(verbs.AttrMaxRdAtomic ^ C.IBV_QP_MAX_QP_RD_ATOMIC)
	_ = -uint(verbs.AttrMinRNRTimer ^ C.IBV_QP_MIN_RNR_TIMER)
	_ = -uint(verbs.AttrSQPSN ^ C.IBV_QP_SQ_PSN)
	_ = -uint(verbs.AttrMaxDestRdAtomic ^ C.IBV_QP_MAX_DEST_RD_ATOMIC)
	_ = -uint(verbs.AttrDestQPN ^ C.IBV_QP_DEST_QPN)

	_ = -uint(verbs.AsyncCQError ^ C.IBV_EVENT_CQ_ERR)
	_ = -uint(verbs.AsyncQPFatal ^ C.IBV_EVENT_QP_FATAL)
	_ = -uint(verbs.AsyncQPRequestError ^ C.IBV_EVENT_QP_REQ_ERR)
	_ = -uint(verbs.AsyncQPAccessError ^ C.IBV_EVENT_QP_ACCESS_ERR)
	_ = -uint(verbs.AsyncCommEst ^ C.IBV_EVENT_COMM_EST)
	_ = -uint(verbs.AsyncSQDrained ^ C.IBV_EVENT_SQ_DRAINED)
	_ = -uint(verbs.AsyncDeviceFatal ^ C.IBV_EVENT_DEVICE_FATAL)
	_ = -uint(verbs.AsyncPortActive ^ C.IBV_EVENT_PORT_ACTIVE)
	_ = -uint(verbs.AsyncPortError ^ C.IBV_EVENT_PORT_ERR)
	_ = -uint(verbs.AsyncSRQError ^ C.IBV_EVENT_SRQ_ERR)
	_ = -uint(verbs.AsyncSRQLimit ^ C.IBV_EVENT_SRQ_LIMIT_REACHED)
	_ = -uint(verbs.AsyncQPLastWQE ^ C.IBV_EVENT_QP_LAST_WQE_REACHED)

	_ = -uint(cm.TCP ^ C.RDMA_PS_TCP)
	_ = -uint(cm.UDP ^ C.RDMA_PS_UDP)
	_ = -uint(cm.DefaultQKey ^ C.RDMA_UDP_QKEY)
	_ = -uint(cm.AddrResolved ^ C.RDMA_CM_EVENT_ADDR_RESOLVED)
	_ = -uint(cm.AddrError ^ C.RDMA_CM_EVENT_ADDR_ERROR)
	_ = -uint(cm.RouteResolved ^ C.RDMA_CM_EVENT_ROUTE_RESOLVED)
	_ = -uint(cm.RouteError ^ C.RDMA_CM_EVENT_ROUTE_ERROR)
	_ = -uint(cm.ConnectRequest ^ C.RDMA_CM_EVENT_CONNECT_REQUEST)
	_ = -uint(cm.ConnectResponse ^ C.RDMA_CM_EVENT_CONNECT_RESPONSE)
	_ = -uint(cm.ConnectError ^ C.RDMA_CM_EVENT_CONNECT_ERROR)
	_ = -uint(cm.Unreachable ^ C.RDMA_CM_EVENT_UNREACHABLE)
	_ = -uint(cm.Rejected ^ C.RDMA_CM_EVENT_REJECTED)
	_ = -uint(cm.Established ^ C.RDMA_CM_EVENT_ESTABLISHED)
	_ = -uint(cm.Disconnected ^ C.RDMA_CM_EVENT_DISCONNECTED)
	_ = -uint(cm.DeviceRemoval ^ C.RDMA_CM_EVENT_DEVICE_REMOVAL)
	_ = -uint(cm.AddrChange ^ C.RDMA_CM_EVENT_ADDR_CHANGE)
	_ = -uint(cm.TimewaitExit ^ C.RDMA_CM_EVENT_TIMEWAIT_EXIT)

	_ = -uint(cm.OptionTOS ^ C.RDMA_OPTION_ID_TOS)
	_ = -uint(cm.OptionReuseAddr ^ C.RDMA_OPTION_ID_REUSEADDR)
	_ = -uint(cm.OptionAFOnly ^ C.RDMA_OPTION_ID_AFONLY)
	_ = -uint(cm.OptionAckTimeout ^ C.RDMA_OPTION_ID_ACK_TIMEOUT)
)

// knownAttrs is the set of all attributes that package verbs defines.
const knownAttrs = verbs.AttrState | verbs.AttrAccess | verbs.AttrPort | verbs.AttrQKey | verbs.AttrAV |
	verbs.AttrPathMTU | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrRQPSN |
	verbs.AttrMaxRdAtomic | verbs.AttrMinRNRTimer | verbs.AttrSQPSN | verbs.AttrMaxDestRdAtomic | verbs.AttrDestQPN

// Go and C share struct ibv_sge. The build fails if its two layouts differ.
const (
	_ = -(unsafe.Sizeof(verbs.SGE{}) ^ C.sizeof_struct_ibv_sge)
	_ = -(unsafe.Offsetof(verbs.SGE{}.Length) ^ unsafe.Offsetof(C.struct_ibv_sge{}.length))
	_ = -(unsafe.Offsetof(verbs.SGE{}.LKey) ^ unsafe.Offsetof(C.struct_ibv_sge{}.lkey))
)
