//go:build linux

package connmgr

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// someMessages returns at least one message of each type. All fields are set.
func someMessages() []Message {
	fill := func(n int) []byte { return bytes.Repeat([]byte{0xa5}, n) }
	ends := Endpoints{netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.2:7471")}
	ends6 := Endpoints{netip.MustParseAddrPort("[::1]:1"), netip.MustParseAddrPort("[fd00::2]:65535")}
	own := QPParams{QPN: verbs.MaxQPNum, PSN: 0x123456, SRQ: true, ResponderResources: 16, InitiatorDepth: 255, RNRRetry: 7, FlowControl: true}
	return []Message{
		&REQ{Endpoints: ends, QPParams: own, Retry: 7, Private: fill(56), Shared: SharedMemory{Shard: shm.ShardID{Device: 1 << 40, Number: 3}}},
		&REQ{Endpoints: ends6, Private: []byte{}},
		&REP{QPParams: own, Private: fill(196), Shared: SharedMemory{shm.ShardID{Device: 1<<64 - 1, Number: shm.MaxShards - 1}, 1 << 63, 1, true}},
		&REP{Private: []byte{}, Shared: SharedMemory{Segment: 5}},
		&RTU{},
		&REJ{Reason: cm.RejectConsumer, ByApplication: true, Private: fill(148), UserRefused: true},
		&REJ{Reason: cm.RejectReason(65535), Private: []byte{}},
		&DREQ{},
		&DREP{},
		&SIDRREQ{ends, fill(180)},
		&SIDRREP{cm.SIDRReject, 5, cm.DefaultQKey, true, fill(136), true},
	}
}

func TestCodecRoundTrip(t *testing.T) {
	for _, m := range someMessages() {
		got, err := decode(encode(m))
		require.NoError(t, err)
		require.Equal(t, m, got)
		require.LessOrEqual(t, len(encode(m)), maxMessage)
	}
}

func TestDecodeRefuses(t *testing.T) {
	request := func() []byte { return encode(someMessages()[0]) }
	set := func(at int, values ...byte) []byte { b := request(); copy(b[at:], values); return b }
	for name, b := range map[string][]byte{
		"nothing":                 nil,
		"cut off":                 request()[:headerSize-1],
		"another version":         set(0, 1),
		"unknown kind":            set(1, 9),
		"unknown flag":            set(2, 0x80),
		"a field of another kind": set(3, 1),
		"length too small":        set(6, 55),
		"length too large":        set(6, 57),
		"cut private data":        request()[:len(request())-1],
		"too much private data":   encode(&REQ{Endpoints: someMessages()[0].(*REQ).Endpoints, Private: make([]byte, 57)}),
		"queue pair number":       set(8, 0, 0, 0, 1),
		"PSN":                     set(12, 0, 0, 0, 1),
		"retry count":             set(22, 8),
		"RNR retry count":         set(23, 8),
		"source of two families":  set(28, 1),
		"no destination":          set(44, make([]byte, 16)...),
		"an unused byte":          set(77, 1),
		"segment in a request":    set(80, 1),
		"side in a request":       set(76, 1),
		"side of a segment":       encode(&REP{Shared: SharedMemory{Side: 2}}),
		"side of a new segment":   encode(&REP{Shared: SharedMemory{Passed: true}}),
		"loop of a request":       set(72, 0, 8),
		"loop of a reply":         encode(&REP{Shared: SharedMemory{Shard: shm.ShardID{Number: shm.MaxShards}}}),
		"reply":                   encode(&REP{Private: make([]byte, 197)}),
		"reject":                  encode(&REJ{Private: make([]byte, 149)}),
		"lookup":                  encode(&SIDRREQ{someMessages()[0].(*REQ).Endpoints, make([]byte, 181)}),
		"lookup reply":            encode(&SIDRREP{Private: make([]byte, 137)}),
		"lookup reply number":     encode(&SIDRREP{QPN: verbs.MaxQPNum + 1}),
		"ready with data":         append(encode(&RTU{}), 0),
	} {
		t.Run(name, func(t *testing.T) {
			m, err := decode(b)
			require.ErrorIs(t, err, verbs.ErrProtocol)
			require.Nil(t, m)
		})
	}
}

// FuzzDecode checks that a packet does not change when it is decoded and encoded again.
func FuzzDecode(f *testing.F) {
	for _, m := range someMessages() {
		f.Add(encode(m))
	}
	f.Add([]byte{})
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			require.ErrorIs(t, err, verbs.ErrProtocol)
			return
		}
		require.Equal(t, b, encode(m))
		require.LessOrEqual(t, len(b), maxMessage)
	})
}
