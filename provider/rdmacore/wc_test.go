//go:build cgo && linux

package rdmacore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Convert must set every field except the ID, because callers reuse completions.
func TestConvertCompletion(t *testing.T) {
	old := verbs.WC{
		ID: 9, Status: verbs.StatusGeneralErr, Opcode: verbs.WCRead, Flags: verbs.WCWithGRH | verbs.WCInline,
		ByteLen: 99, Imm: 99, QPN: 99, SrcQPN: 99, VendorErr: 99,
	}
	wc := old
	good := rdmacore.NewRawWC(verbs.StatusSuccess, 1<<7)
	good.Convert(&wc)
	require.Equal(t, verbs.WC{
		ID: 9, Opcode: verbs.WCRecv, Flags: verbs.WCWithImm, ByteLen: 2, Imm: 0x102, QPN: 3, SrcQPN: 4, VendorErr: 1,
	}, wc)
	wc = old
	bad := rdmacore.NewRawWC(verbs.StatusWRFlushErr, 1<<7)
	bad.Convert(&wc)
	require.Equal(t, verbs.WC{Status: verbs.StatusWRFlushErr, QPN: 3, VendorErr: 1}, wc)
}

// The keys of the map are values of enum ibv_wc_opcode.
func TestConvertOpcode(t *testing.T) {
	for raw, want := range map[uint32]verbs.WCOpcode{
		0: verbs.WCSend, 1: verbs.WCWrite, 2: verbs.WCRead, 3: verbs.WCCompareSwap, 4: verbs.WCFetchAdd,
		1 << 7: verbs.WCRecv, 1<<7 + 1: verbs.WCRecvWriteImm,
		5: verbs.WCBindMW, 6: verbs.WCLocalInv, 7: 255, 1<<7 + 2: 255,
	} {
		var wc verbs.WC
		r := rdmacore.NewRawWC(verbs.StatusSuccess, raw)
		r.Convert(&wc)
		require.Equal(t, want, wc.Opcode, raw)
	}
}
