package rsocket_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
)

// The vectors are from a connection between two programs that use librdmacm 44.0. The
// client sent its Hello in the connection request, and the server in the reply.
const (
	clientHello = "01 02 0180 000000 00 00005618a6cd0000 0000036a 00000002 00007fd2e08d9000 0000049f 00010000"
	serverHello = "01 02 0180 000000 00 00007fc0b4003000 0000031a 00000002 00007fc0ba324000 000004f3 00010000"
	// serverSegment is what the server has written to the table of the client: the segment of
	// the second half of the server's ring.
	serverSegment = "0040 33ba c07f 0000 f304 0000 0000 0100"
)

// unhex returns the bytes of a text in hexadecimal, without its spaces.
func unhex(t testing.TB, text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return b
}

// decoded returns the Hello of a vector.
func decoded(t testing.TB, text string) rsocket.Hello {
	h, rest, err := rsocket.DecodeHello(unhex(t, text))
	require.NoError(t, err)
	require.Empty(t, rest)
	return h
}

func TestHello(t *testing.T) {
	want := rsocket.Hello{
		Credits: 384,
		Table:   rsocket.Table{Addr: 0x5618a6cd0000, Key: 0x36a, Entries: 2},
		First:   rsocket.Segment{Addr: 0x7fd2e08d9000, Key: 0x49f, Length: 65536},
	}
	require.Equal(t, want, decoded(t, clientHello))
	require.Equal(t, unhex(t, clientHello), want.AppendTo(nil))
	_, rest, err := rsocket.DecodeHello(append(want.AppendTo(nil), "more"...))
	require.NoError(t, err)
	require.Equal(t, "more", string(rest))
	want.BigEndian = true
	require.Equal(t, want, decoded(t, strings.Replace(clientHello, "02", "03", 1)))
}

func TestHelloErrors(t *testing.T) {
	whole := unhex(t, clientHello)
	_, _, err := rsocket.DecodeHello(whole[:rsocket.HelloSize-1])
	require.ErrorIs(t, err, rsocket.ErrVersion)
	for offset, want := range map[int]error{0: rsocket.ErrVersion, 23: rsocket.ErrProtocol} {
		b := append([]byte(nil), whole...)
		b[offset] = 0
		_, _, err := rsocket.DecodeHello(b)
		require.ErrorIs(t, err, want, "offset %d", offset)
	}
}

func TestMessages(t *testing.T) {
	for imm, m := range map[uint32]rsocket.Message{
		0x0000000a: {Kind: rsocket.Data, Value: 10},
		0x1fffffff: {Kind: rsocket.Data, Value: 1<<29 - 1},
		0x80000180: {Kind: rsocket.Credit, Value: 0x180},
		0xc0000003: {Kind: rsocket.Mapping, Value: 3},
		0xe0000000: {Kind: rsocket.Disconnect},
		0xe0000001: {Kind: rsocket.Keepalive},
		0xe0000002: {Kind: rsocket.Shutdown},
	} {
		got, err := rsocket.Decode(imm)
		require.NoError(t, err)
		require.Equal(t, m, got)
		require.Equal(t, imm, m.Imm())
	}
	for _, imm := range []uint32{0, 0x20000001, 0x40000001, 0x60000001, 0xa0000001, 0xe0000003} {
		_, err := rsocket.Decode(imm)
		require.ErrorIs(t, err, rsocket.ErrProtocol, "%#x", imm)
	}
}

// TestFirstOffer checks the first message of the server, which offers the second half of
// its ring.
func TestFirstOffer(t *testing.T) {
	own, peer := decoded(t, serverHello), decoded(t, clientHello)
	r := rsocket.NewReceiver(make([]byte, 2*own.First.Length), &own, &peer)
	o, ok := r.Offer()
	require.True(t, ok)
	require.Equal(t, uint32(0x80000180), o.Message.Imm())
	require.True(t, o.HasSegment)
	require.Equal(t, rsocket.Table{Addr: 0x5618a6cd0010, Key: 0x36a, Entries: 1}, o.To)
	require.Equal(t, unhex(t, serverSegment), o.Segment[:])
	_, ok = r.Offer()
	require.False(t, ok)
}

// TestFirstSegments checks where the client writes before and after the first message of
// the server.
func TestFirstSegments(t *testing.T) {
	peer := decoded(t, serverHello)
	table := make([]byte, rsocket.TableSize)
	s := rsocket.NewSender(table, &peer)
	require.Equal(t, peer.First, s.Next())
	s.Sent(65536)
	require.Zero(t, s.Next())
	copy(table[rsocket.SegmentSize:], unhex(t, serverSegment))
	require.Zero(t, s.Next(), "the table is not read before the credit message")
	require.NoError(t, s.Credit(0x180))
	require.Equal(t, rsocket.Segment{Addr: 0x7fc0ba334000, Key: 0x4f3, Length: 65536}, s.Next())
}
