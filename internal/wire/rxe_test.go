package wire_test

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// rxeCaptures returns the packets of testdata/rxe.txt by name.
func rxeCaptures(t testing.TB) map[string]capture {
	text, err := os.ReadFile("testdata/rxe.txt")
	require.NoError(t, err)
	captures := map[string]capture{}
	for _, block := range strings.Split(string(text), "\n\n")[1:] {
		name, hex, _ := strings.Cut(block, "\n")
		captures[name] = parse(unhex(t, hex))
	}
	require.Len(t, captures, 18)
	return captures
}

// TestRxeICRC checks Verify and Seal with packets of rxe, the kernel's software device.
func TestRxeICRC(t *testing.T) {
	for name, c := range rxeCaptures(t) {
		want := c.decoded(t).ICRC()
		id, ok := c.flow().Verify(c.decoded(t))
		require.True(t, ok, name)
		require.Equal(t, c.id, id, name)
		require.NotZero(t, id, name)

		clear(c.packet[len(c.packet)-wire.ICRCSize:])
		c.flow().Seal(c.decoded(t), id)
		require.Equal(t, want, c.decoded(t).ICRC(), name)
	}
}

// TestRxeMADs decodes and encodes messages of the kernel. They must stay the same.
func TestRxeMADs(t *testing.T) {
	captures := rxeCaptures(t)
	for name, r := range map[string]interface {
		Decode(*wire.MAD)
		Encode(*wire.MAD, uint64)
	}{
		"REQ": &wire.REQ{}, "REP": &wire.REP{}, "RTU": &wire.RTU{}, "REJ": &wire.REJ{}, "DREQ": &wire.DREQ{},
		"DREP": &wire.DREP{}, "SIDR_REQ": &wire.SIDRREQ{}, "SIDR_REP": &wire.SIDRREP{},
	} {
		p := captures[name].decoded(t)
		require.EqualValues(t, wire.GSIQPN, p.BTH().DestQP(), name)
		require.Equal(t, uint32(wire.GSIQKey), p.DETH().QKey(), name)
		m, err := wire.DecodeMAD(p.Payload())
		require.NoError(t, err, name)
		var again wire.MAD
		r.Decode(m)
		r.Encode(&again, m.TID())
		require.Equal(t, *m, again, name)
	}
}

func TestRxeConnects(t *testing.T) {
	captures := rxeCaptures(t)
	var req wire.REQ
	req.Decode((*wire.MAD)(captures["REQ"].decoded(t).Payload()))
	space, port, ok := req.ServiceID.Port()
	require.True(t, ok)
	require.EqualValues(t, 0x0106, space)
	require.EqualValues(t, 7174, port)
	require.EqualValues(t, 17, req.QPN, "the first QP number that rxe assigns")
	require.EqualValues(t, 3, req.MTU, "1024")
	require.EqualValues(t, 19, req.Primary.AckTimeout)
	require.Equal(t, captures["REQ"].src.Addr(), req.Primary.LocalGID.Addr())
	require.Equal(t, captures["REQ"].dst.Addr(), req.Primary.RemoteGID.Addr())
	var cma wire.CMAHeader
	_, err := cma.Decode(req.PrivateData[:])
	require.NoError(t, err)
	require.Equal(t, captures["REQ"].src.Addr(), cma.Src)
	require.Equal(t, captures["REQ"].dst.Addr(), cma.Dst)

	var rep wire.REP
	rep.Decode((*wire.MAD)(captures["REP"].decoded(t).Payload()))
	require.EqualValues(t, 18, rep.QPN)
	require.EqualValues(t, 15, rep.TargetAckDelay)
	var rej wire.REJ
	rej.Decode((*wire.MAD)(captures["REJ"].decoded(t).Payload()))
	require.EqualValues(t, 28, rej.Reason)
	require.Equal(t, wire.AnsweredREQ, rej.Rejected)
}

func TestRxeTransport(t *testing.T) {
	captures := rxeCaptures(t)
	packet := func(name string, op wire.Opcode, payload int) wire.Packet {
		p := captures[name].decoded(t)
		require.Equal(t, op, p.Opcode(), name)
		require.Len(t, p.Payload(), payload, name)
		return p
	}
	require.True(t, packet("SEND", wire.SendOnly, 16).BTH().AckReq())
	require.Equal(t, wire.Syndrome(0x1f), packet("ACK", wire.Acknowledge, 0).AETH().Syndrome())
	require.EqualValues(t, 12, packet("RNR NAK", wire.Acknowledge, 0).AETH().Syndrome().RNRTimer())
	require.Equal(t, wire.NAK(wire.NAKSequence), packet("NAK, sequence", wire.Acknowledge, 0).AETH().Syndrome())
	require.Equal(t, wire.NAK(wire.NAKRemoteAccess), packet("NAK, access", wire.Acknowledge, 0).AETH().Syndrome())
	require.EqualValues(t, 64, packet("READ request", wire.ReadRequest, 0).RETH().Length())
	response := packet("READ response", wire.ReadResponseOnly, 64)
	require.Equal(t, "rdma-ping-9: ", string(response.Payload()[:13]))
	require.EqualValues(t, 3, binary.BigEndian.Uint64(packet("FETCH_ADD", wire.FetchAdd, 0).AtomicETH()[12:]))
	swap := packet("COMPARE_SWAP", wire.CompareSwap, 0).AtomicETH()
	require.Zero(t, swap.Compare())
	require.NotZero(t, binary.BigEndian.Uint64(swap[12:]))
	packet("ATOMIC_ACK", wire.AtomicAcknowledge, 0)
}
