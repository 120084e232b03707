package wire_test

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func testDREQ() *wire.DREQ {
	r := &wire.DREQ{LocalID: 0xa1a2a3a4, RemoteID: 0xb1b2b3b4, RemoteQPN: 0xc1c2c3}
	copy(r.PrivateData[:], pattern(220))
	return r
}

func TestDREQLayout(t *testing.T) {
	requireLayout(t, wire.AttrDREQ, testDREQ(), map[int]string{0: "a1a2a3a4 b1b2b3b4 c1c2c3", 12: hexOf(pattern(220))})
}

func testDREP() *wire.DREP {
	r := &wire.DREP{LocalID: 0xa1a2a3a4, RemoteID: 0xb1b2b3b4}
	copy(r.PrivateData[:], pattern(224))
	return r
}

func TestDREPLayout(t *testing.T) {
	requireLayout(t, wire.AttrDREP, testDREP(), map[int]string{0: "a1a2a3a4 b1b2b3b4", 8: hexOf(pattern(224))})
}
