package wire_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestAETH(t *testing.T) {
	var h wire.AETH
	h.Set(wire.NAK(wire.NAKRemoteAccess), 0xabcdef)
	require.Equal(t, unhex(t, "62 abcdef"), h[:])
	require.Equal(t, wire.Syndrome(0x62), h.Syndrome())
	require.Equal(t, psn.Value(0xabcdef), h.MSN())
}

func TestAETHOfTheVectors(t *testing.T) {
	ack := captured(t, vectorAck).decoded(t).AETH()
	require.Equal(t, wire.AckNoCredits, ack.Syndrome())
	require.Equal(t, psn.Value(1), ack.MSN())

	rnr := captured(t, vectorRNRNAK).decoded(t).AETH()
	require.Equal(t, wire.RNRNAK(12), rnr.Syndrome())
	require.Equal(t, uint8(12), rnr.Syndrome().RNRTimer())
}

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		s    wire.Syndrome
		want uint8
		kind wire.SyndromeKind
		text string
	}{
		{wire.AckNoCredits, 0x1f, wire.SyndromeAck, "ACK"},
		{wire.Ack(0), 0x00, wire.SyndromeAck, "ACK"},
		{wire.RNRNAK(0), 0x20, wire.SyndromeRNRNAK, "RNR NAK, timer code 0"},
		{wire.RNRNAK(31), 0x3f, wire.SyndromeRNRNAK, "RNR NAK, timer code 31"},
		{wire.RNRNAK(0xff), 0x3f, wire.SyndromeRNRNAK, "RNR NAK, timer code 31"},
		{wire.NAK(wire.NAKSequence), 0x60, wire.SyndromeNAK, "NAK: PSN sequence error"},
		{wire.NAK(wire.NAKInvalidRequest), 0x61, wire.SyndromeNAK, "NAK: invalid request"},
		{wire.NAK(wire.NAKRemoteAccess), 0x62, wire.SyndromeNAK, "NAK: remote access error"},
		{wire.NAK(wire.NAKRemoteOperational), 0x63, wire.SyndromeNAK, "NAK: remote operational error"},
		{wire.NAK(4), 0x64, wire.SyndromeNAK, "NAK: invalid RD request"},
		{wire.Syndrome(0x65), 0x65, wire.SyndromeNAK, "NAK: reserved code 5"},
		{wire.Syndrome(0x41), 0x41, 0b010, "reserved syndrome 0x41"},
		{wire.Syndrome(0xff), 0xff, 0b111, "reserved syndrome 0xff"},
	} {
		require.Equal(t, c.want, uint8(c.s), c.text)
		require.Equal(t, c.kind, c.s.Kind(), c.text)
		require.Equal(t, c.text, c.s.String())
	}
	require.Equal(t, wire.NAKRemoteOperational, wire.Syndrome(0x63).NAKCode())
}

func TestCredits(t *testing.T) {
	counts := []int{
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
		1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	}
	for code, count := range counts {
		n, ok := wire.Syndrome(code).Credits()
		require.True(t, ok)
		require.Equal(t, count, n)
		require.Equal(t, wire.Syndrome(code), wire.Ack(count))
		if code > 0 {
			require.Equal(t, wire.Syndrome(code-1), wire.Ack(count-1), "Ack never grants more credits than given")
		}
	}
	require.Equal(t, wire.Ack(32768), wire.Ack(math.MaxInt))
	require.Equal(t, wire.Ack(0), wire.Ack(-1))
	for _, s := range []wire.Syndrome{wire.AckNoCredits, wire.RNRNAK(3), wire.NAK(3)} {
		_, ok := s.Credits()
		require.False(t, ok, "%v", s)
	}
}
