package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestWCOpcode(t *testing.T) {
	requireNames(t, verbs.WCSend, "SEND", "WRITE", "READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV",
		"RECV", "RECV_RDMA_WITH_IMM", "completion opcode 9")
	for op := range verbs.WCOpcode(255) {
		require.Equal(t, op == verbs.WCRecv || op == verbs.WCRecvWriteImm, op.Receive(), "%v", op)
	}
}

// TestStatus compares the statuses with enum ibv_wc_status, and checks the fault of each
// status.
func TestStatus(t *testing.T) {
	want := []verbs.Fault{
		verbs.StatusSuccess:        verbs.FaultNone,
		verbs.StatusLocLenErr:      verbs.FaultLocal,
		verbs.StatusLocQPOpErr:     verbs.FaultLocal,
		verbs.StatusLocEECOpErr:    verbs.FaultLocal,
		verbs.StatusLocProtErr:     verbs.FaultLocal,
		verbs.StatusWRFlushErr:     verbs.FaultFlushed,
		verbs.StatusMWBindErr:      verbs.FaultLocal,
		verbs.StatusBadRespErr:     verbs.FaultRemote,
		verbs.StatusLocAccessErr:   verbs.FaultLocal,
		verbs.StatusRemInvReqErr:   verbs.FaultRemote,
		verbs.StatusRemAccessErr:   verbs.FaultRemote,
		verbs.StatusRemOpErr:       verbs.FaultRemote,
		verbs.StatusRetryExcErr:    verbs.FaultRemote,
		verbs.StatusRNRRetryExcErr: verbs.FaultRemote,
		verbs.StatusLocRDDViolErr:  verbs.FaultLocal,
		verbs.StatusRemInvRDReqErr: verbs.FaultRemote,
		verbs.StatusRemAbortErr:    verbs.FaultRemote,
		verbs.StatusInvEECNErr:     verbs.FaultLocal,
		verbs.StatusInvEECStateErr: verbs.FaultLocal,
		verbs.StatusFatalErr:       verbs.FaultLocal,
		verbs.StatusRespTimeoutErr: verbs.FaultRemote,
		verbs.StatusGeneralErr:     verbs.FaultLocal,
	}
	require.Len(t, want, 22)
	names := map[string]verbs.Status{}
	for i, fault := range want {
		status := verbs.Status(i)
		require.Equal(t, fault, status.Fault(), "%v", status)
		require.NotContains(t, names, status.String())
		names[status.String()] = status
	}
	require.Equal(t, "completion status 22", verbs.Status(22).String())
	require.Equal(t, verbs.FaultLocal, verbs.Status(200).Fault())
}

func TestFaultStrings(t *testing.T) {
	requireNames(t, verbs.FaultNone, "none", "local", "remote", "flushed", "fault 4")
}

func TestWCErr(t *testing.T) {
	wc := verbs.WC{ID: 1, QPN: 7}
	require.NoError(t, wc.Err())
	wc.Status, wc.VendorErr = verbs.StatusRemAccessErr, 3
	require.Equal(t, &verbs.CompletionError{Status: verbs.StatusRemAccessErr, QPN: 7, VendorErr: 3}, wc.Err())
}
