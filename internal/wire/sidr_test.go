package wire_test

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func testSIDRREQ() *wire.SIDRREQ {
	r := &wire.SIDRREQ{RequestID: 0xa1a2a3a4, PKey: 0xfffe, ServiceID: 0x0102030405060708}
	copy(r.PrivateData[:], pattern(216))
	return r
}

func TestSIDRREQLayout(t *testing.T) {
	requireLayout(t, wire.AttrSIDRREQ, testSIDRREQ(), map[int]string{
		0:  "a1a2a3a4 fffe",
		8:  "0102030405060708",
		16: hexOf(pattern(216)),
	})
}

func testSIDRREP() *wire.SIDRREP {
	r := &wire.SIDRREP{
		RequestID: 0xa1a2a3a4, Status: 4, InfoLength: 72,
		QPN: 0xb1b2b3, ServiceID: 0x0102030405060708, QKey: 0x01234567,
	}
	copy(r.Info[:], pattern(72))
	copy(r.PrivateData[:], pattern(136))
	return r
}

func TestSIDRREPLayout(t *testing.T) {
	requireLayout(t, wire.AttrSIDRREP, testSIDRREP(), map[int]string{
		0:  "a1a2a3a4 04 48",
		8:  "b1b2b3",
		12: "0102030405060708 01234567",
		24: hexOf(pattern(72)),
		96: hexOf(pattern(136)),
	})
}
