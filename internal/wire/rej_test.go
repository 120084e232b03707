package wire_test

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func testREJ() *wire.REJ {
	r := &wire.REJ{
		LocalID:    0xa1a2a3a4,
		RemoteID:   0xb1b2b3b4,
		Rejected:   wire.AnsweredOther,
		InfoLength: 72,
		Reason:     0x011c,
	}
	copy(r.Info[:], pattern(72))
	copy(r.PrivateData[:], pattern(148))
	return r
}

func TestREJLayout(t *testing.T) {
	requireLayout(t, wire.AttrREJ, testREJ(), map[int]string{
		0: "a1a2a3a4 b1b2b3b4",
		// Rejected (2) is in the top two bits of the first byte. InfoLength (72) is in
		// the top seven bits of the second byte.
		8:  "80 90",
		10: "011c",
		12: hexOf(pattern(72)),
		84: hexOf(pattern(148)),
	})
}

func testMRA() *wire.MRA {
	r := &wire.MRA{LocalID: 0xa1a2a3a4, RemoteID: 0xb1b2b3b4, Received: wire.AnsweredREP, ServiceTimeout: 24}
	copy(r.PrivateData[:], pattern(222))
	return r
}

func TestMRALayout(t *testing.T) {
	requireLayout(t, wire.AttrMRA, testMRA(), map[int]string{
		0: "a1a2a3a4 b1b2b3b4",
		// Received (1) is in the top two bits of the first byte. ServiceTimeout (24) is
		// in the top five bits of the second byte.
		8:  "40 c0",
		10: hexOf(pattern(222)),
	})
}
