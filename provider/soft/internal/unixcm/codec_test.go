//go:build linux

package unixcm

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// someMessages returns at least one message of each type. All fields are set.
func someMessages() []connmgr.Message {
	fill := func(n int) []byte { return bytes.Repeat([]byte{0xa5}, n) }
	ends := connmgr.Endpoints{Src: netip.MustParseAddrPort("127.0.0.1:40000"), Dst: netip.MustParseAddrPort("127.0.0.2:7471")}
	ends6 := connmgr.Endpoints{Src: netip.MustParseAddrPort("[::1]:1"), Dst: netip.MustParseAddrPort("[fd00::2]:65535")}
	own := connmgr.QPParams{QPN: verbs.MaxQPNum, PSN: 0x123456, SRQ: true, ResponderResources: 16, InitiatorDepth: 255, RNRRetry: 7, FlowControl: true}
	return []connmgr.Message{
		&connmgr.REQ{Endpoints: ends, QPParams: own, Retry: 7, Private: fill(56), Shared: connmgr.SharedMemory{Shard: shm.ShardID{Device: 1 << 40, Number: 3}}},
		&connmgr.REQ{Endpoints: ends6, Private: []byte{}},
		&connmgr.REP{QPParams: own, Private: fill(196), Shared: connmgr.SharedMemory{Shard: shm.ShardID{Device: 1<<64 - 1, Number: shm.MaxShards - 1}, Segment: 1 << 63, Side: 1, Passed: true}},
		&connmgr.REP{Private: []byte{}, Shared: connmgr.SharedMemory{Segment: 5}},
		&connmgr.RTU{},
		&connmgr.REJ{Reason: cm.RejectConsumer, ByApplication: true, Private: fill(148), UserRefused: true},
		&connmgr.REJ{Reason: cm.RejectReason(65535), Private: []byte{}},
		&connmgr.DREQ{Private: fill(220)},
		&connmgr.DREQ{Private: []byte{}},
		&connmgr.DREP{},
		&connmgr.SIDRREQ{Endpoints: ends, Private: fill(180)},
		&connmgr.SIDRREP{Status: cm.SIDRReject, QPN: 5, QKey: cm.DefaultQKey, ByApplication: true, Private: fill(136), UserRefused: true},
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
		"too much private data":   encode(&connmgr.REQ{Endpoints: someMessages()[0].(*connmgr.REQ).Endpoints, Private: make([]byte, 57)}),
		"queue pair number":       set(8, 0, 0, 0, 1),
		"PSN":                     set(12, 0, 0, 0, 1),
		"retry count":             set(22, 8),
		"RNR retry count":         set(23, 8),
		"source of two families":  set(28, 1),
		"no destination":          set(44, make([]byte, 16)...),
		"an unused byte":          set(77, 1),
		"segment in a request":    set(80, 1),
		"side in a request":       set(76, 1),
		"side of a segment":       encode(&connmgr.REP{Shared: connmgr.SharedMemory{Side: 2}}),
		"side of a new segment":   encode(&connmgr.REP{Shared: connmgr.SharedMemory{Passed: true}}),
		"loop of a request":       set(72, 0, 8),
		"loop of a reply":         encode(&connmgr.REP{Shared: connmgr.SharedMemory{Shard: shm.ShardID{Number: shm.MaxShards}}}),
		"reply":                   encode(&connmgr.REP{Private: make([]byte, 197)}),
		"reject":                  encode(&connmgr.REJ{Private: make([]byte, 149)}),
		"lookup":                  encode(&connmgr.SIDRREQ{Endpoints: someMessages()[0].(*connmgr.REQ).Endpoints, Private: make([]byte, 181)}),
		"lookup reply":            encode(&connmgr.SIDRREP{Private: make([]byte, 137)}),
		"lookup reply number":     encode(&connmgr.SIDRREP{QPN: verbs.MaxQPNum + 1}),
		"ready with data":         append(encode(&connmgr.RTU{}), 0),
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
