package wire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// An expectation is one line of the table of opcodes in IBTA vol. 1, 9.2 and 9.3. It was
// written independently of the package's own table.
type expectation struct {
	code    uint8
	name    string
	headers string // extended headers in order
	// Allowed lengths of the payload. The letter p stands for the path MTU.
	payload  string
	kind     wire.Kind
	response bool
}

var expectations = []expectation{
	{0x00, "SEND_FIRST", "", "p", wire.KindSend, false},
	{0x01, "SEND_MIDDLE", "", "p", wire.KindSend, false},
	{0x02, "SEND_LAST", "", "1..p", wire.KindSend, false},
	{0x03, "SEND_LAST_IMM", "ImmDt", "1..p", wire.KindSend, false},
	{0x04, "SEND_ONLY", "", "0..p", wire.KindSend, false},
	{0x05, "SEND_ONLY_IMM", "ImmDt", "0..p", wire.KindSend, false},
	{0x06, "WRITE_FIRST", "RETH", "p", wire.KindWrite, false},
	{0x07, "WRITE_MIDDLE", "", "p", wire.KindWrite, false},
	{0x08, "WRITE_LAST", "", "1..p", wire.KindWrite, false},
	{0x09, "WRITE_LAST_IMM", "ImmDt", "1..p", wire.KindWrite, false},
	{0x0a, "WRITE_ONLY", "RETH", "0..p", wire.KindWrite, false},
	{0x0b, "WRITE_ONLY_IMM", "RETH ImmDt", "0..p", wire.KindWrite, false},
	{0x0c, "READ_REQUEST", "RETH", "0", wire.KindRead, false},
	{0x0d, "READ_RESPONSE_FIRST", "AETH", "p", wire.KindReadResponse, true},
	{0x0e, "READ_RESPONSE_MIDDLE", "", "p", wire.KindReadResponse, true},
	{0x0f, "READ_RESPONSE_LAST", "AETH", "1..p", wire.KindReadResponse, true},
	{0x10, "READ_RESPONSE_ONLY", "AETH", "0..p", wire.KindReadResponse, true},
	{0x11, "ACKNOWLEDGE", "AETH", "0", wire.KindAcknowledge, true},
	{0x12, "ATOMIC_ACKNOWLEDGE", "AETH AtomicAckETH", "0", wire.KindAtomicAcknowledge, true},
	{0x13, "COMPARE_SWAP", "AtomicETH", "0", wire.KindAtomic, false},
	{0x14, "FETCH_ADD", "AtomicETH", "0", wire.KindAtomic, false},
	{0x16, "SEND_LAST_INV", "IETH", "1..p", wire.KindSend, false},
	{0x17, "SEND_ONLY_INV", "IETH", "0..p", wire.KindSend, false},
	{0x64, "UD_SEND_ONLY", "DETH", "0..p", wire.KindSend, false},
	{0x65, "UD_SEND_ONLY_IMM", "DETH ImmDt", "0..p", wire.KindSend, false},
	{0x81, "CNP", "Reserved", "0", wire.KindCongestion, false},
}

// Sizes of the headers, and of the reserved bytes of a CNP. Source: IBTA vol. 1, 9.2 and
// 9.3.
var sizes = map[string]int{
	"DETH": 8, "RETH": 16, "AtomicETH": 28, "AETH": 4, "AtomicAckETH": 8, "ImmDt": 4, "IETH": 4, "Reserved": 16,
}

func (e expectation) has(header string) bool {
	return slices.Contains(strings.Fields(e.headers), header)
}

func (e expectation) extended() (n int) {
	for _, header := range strings.Fields(e.headers) {
		n += sizes[header]
	}
	return n
}

// offset returns the offset of a header in the packet.
func (e expectation) offset(header string) int {
	at := wire.BTHSize
	for _, h := range strings.Fields(e.headers) {
		if h == header {
			return at
		}
		at += sizes[h]
	}
	return -1
}

// length returns an allowed payload length.
func (e expectation) length() int {
	if e.payload == "0" {
		return 0
	}
	return 7
}

func TestOpcodes(t *testing.T) {
	for _, e := range expectations {
		op := wire.Opcode(e.code)
		require.Equal(t, e.name, op.String())
		require.Equal(t, e.kind, op.Kind(), e.name)
		require.Equal(t, e.response, op.Response(), e.name)
		require.Equal(t, e.has("ImmDt"), op.HasImm(), e.name)
		require.Equal(t, wire.Transport(e.code>>5), op.Transport(), e.name)
	}
	require.Equal(t, wire.RC, wire.SendOnly.Transport())
	require.Equal(t, wire.UD, wire.UDSendOnly.Transport())
}

func TestUnknownOpcodes(t *testing.T) {
	unknown := 0
	for code := range 256 {
		if op := wire.Opcode(code); op.Kind() == wire.KindUnknown {
			unknown++
			require.False(t, op.First() || op.Last() || op.Response() || op.HasImm(), "%v", op)
		}
	}
	require.Equal(t, 256-len(expectations), unknown)
	require.Equal(t, "opcode 0x15", wire.Opcode(0x15).String())
}

// TestOpcodeParts checks First and Last against the names of the opcodes.
func TestOpcodeParts(t *testing.T) {
	// The outer key is the result of First, and the inner key is the result of Last.
	parts := map[bool]map[bool]string{
		true:  {true: "only", false: "first"},
		false: {true: "last", false: "middle"},
	}
	for part, ops := range map[string][]wire.Opcode{
		"first":  {wire.SendFirst, wire.WriteFirst, wire.ReadResponseFirst},
		"middle": {wire.SendMiddle, wire.WriteMiddle, wire.ReadResponseMiddle},
		"last":   {wire.SendLast, wire.SendLastImm, wire.SendLastInv, wire.WriteLast, wire.WriteLastImm, wire.ReadResponseLast},
		"only": {
			wire.SendOnly, wire.SendOnlyImm, wire.SendOnlyInv, wire.WriteOnly, wire.WriteOnlyImm, wire.ReadRequest,
			wire.ReadResponseOnly, wire.Acknowledge, wire.AtomicAcknowledge, wire.CompareSwap, wire.FetchAdd,
			wire.UDSendOnly, wire.UDSendOnlyImm, wire.CNP,
		},
	} {
		for _, op := range ops {
			require.Equal(t, part, parts[op.First()][op.Last()], "%v", op)
		}
	}
}

func TestFitsPayload(t *testing.T) {
	const mtu = 1024
	fits := map[string][]int{
		"0":    {0},
		"p":    {mtu},
		"1..p": {1, 2, mtu - 1, mtu},
		"0..p": {0, 1, 2, mtu - 1, mtu},
	}
	for _, e := range expectations {
		for _, n := range []int{-1, 0, 1, 2, mtu - 1, mtu, mtu + 1, 4096} {
			require.Equal(t, slices.Contains(fits[e.payload], n), wire.Opcode(e.code).FitsPayload(n, mtu), "%s with %d bytes", e.name, n)
		}
	}
}

func TestSize(t *testing.T) {
	require.Equal(t, 16, wire.SendOnly.Size(0))
	require.Equal(t, 20, wire.SendOnly.Size(1))
	require.Equal(t, 20, wire.SendOnly.Size(4))
	require.Equal(t, 288-8, wire.UDSendOnly.Size(wire.MADSize), "IBTA vol. 1, 13.4: a MAD, without the UDP header")
	require.Equal(t, wire.MaxPacket, wire.WriteOnlyImm.Size(wire.MaxPayload))
	for _, e := range expectations {
		require.Equal(t, 12+e.extended()+4, wire.Opcode(e.code).Size(0), e.name)
		if e.payload != "0" {
			require.LessOrEqual(t, wire.Opcode(e.code).Size(wire.MaxPayload), wire.MaxPacket, e.name)
		}
	}
}
