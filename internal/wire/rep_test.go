package wire_test

import (
	"encoding/hex"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func testREP() *wire.REP {
	r := &wire.REP{
		LocalID:            0xa1a2a3a4,
		RemoteID:           0xb1b2b3b4,
		QKey:               0xc1c2c3c4,
		QPN:                0xd1d2d3,
		StartPSN:           0xe1e2e3,
		ResponderResources: 0xf1,
		InitiatorDepth:     0xf2,
		TargetAckDelay:     15,
		Failover:           2,
		FlowControl:        true,
		RNRRetry:           5,
		SRQ:                true,
		CAGUID:             0x0102030405060708,
	}
	copy(r.PrivateData[:], pattern(196))
	return r
}

func TestREPLayout(t *testing.T) {
	requireLayout(t, wire.AttrREP, testREP(), map[int]string{
		0:  "a1a2a3a4 b1b2b3b4 c1c2c3c4",
		12: "d1d2d3",
		20: "e1e2e3",
		24: "f1 f2",
		// Values and lengths in bits: TargetAckDelay 15 (5), Failover 2 (2), FlowControl
		// 1 (1), RNRRetry 5 (3), SRQ 1 (1), reserved (4).
		26: "7d b0",
		28: "0102030405060708",
		36: hexOf(pattern(196)),
	})
}

func testRTU() *wire.RTU {
	r := &wire.RTU{LocalID: 0xa1a2a3a4, RemoteID: 0xb1b2b3b4}
	copy(r.PrivateData[:], pattern(224))
	return r
}

func TestRTULayout(t *testing.T) {
	requireLayout(t, wire.AttrRTU, testRTU(), map[int]string{0: "a1a2a3a4 b1b2b3b4", 8: hexOf(pattern(224))})
}
