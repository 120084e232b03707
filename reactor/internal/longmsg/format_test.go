package longmsg

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzControl checks that a control message that Decode accepts is encoded to the same
// bytes again.
func FuzzControl(f *testing.F) {
	m := Control{Kind: Announce, HasImm: true, Number: 7}
	for i := range uint32(MaxSegments) {
		m.Add(Segment{Addr: uint64(i) << 40, RKey: i, Length: 1 + i})
		f.Add(m.AppendTo(nil))
	}
	f.Add((&Control{Kind: Done, Number: 1<<32 - 1}).AppendTo(nil))
	f.Add((&Control{Kind: Rename, Number: 5}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Control
		if m.Decode(b) != "" {
			return
		}
		require.Equal(t, b, m.AppendTo(nil))
		require.LessOrEqual(t, m.Count, MaxSegments)
		sum := uint64(0)
		for _, s := range m.Segments[:m.Count] {
			require.NotZero(t, s.Length)
			sum += uint64(s.Length)
		}
		require.Equal(t, sum, m.Total)
		require.Equal(t, m.Kind == Announce, m.Count > 0)
	})
}

// TestControlErrors checks that wrong control messages are refused.
func TestControlErrors(t *testing.T) {
	good := (&Control{Kind: Announce, Segments: [MaxSegments]Segment{{Length: 1}}, Count: 1}).AppendTo(nil)
	var m Control
	require.Empty(t, m.Decode(good))
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, b := range map[string][]byte{
		"empty":            {},
		"short header":     good[:controlHeader-1],
		"kind 0":           change(0, 0),
		"kind 4":           change(0, 4),
		"done with bytes":  change(0, byte(Done)),
		"flag 2":           change(1, 2),
		"reserved byte":    change(3, 1),
		"no segments":      change(2, 0)[:controlHeader],
		"missing segment":  change(2, 2),
		"too many":         append(change(2, MaxSegments+1), make([]byte, MaxSegments*segmentSize)...),
		"more bytes":       append(bytes.Clone(good), 0),
		"fewer bytes":      good[:len(good)-1],
		"length 0":         change(len(good)-1, 0),
		"number, not flag": change(7, 1),
		"wrapped address":  append(binary.BigEndian.AppendUint64(bytes.Clone(good[:controlHeader]), 1<<64-1), 0, 0, 0, 0, 0, 0, 0, 2),
	} {
		require.NotEmpty(t, m.Decode(b), name)
	}
}

// FuzzOffer checks that SplitOffer separates what AppendOffer has joined.
func FuzzOffer(f *testing.F) {
	f.Add([]byte("private"), uint32(5))
	f.Add(make([]byte, 56), uint32(0))
	f.Add(AppendOffer(nil, 56, 7), uint32(9))
	f.Fuzz(func(t *testing.T, data []byte, limit uint32) {
		const room = 56
		if user, got, ok := SplitOffer(data, room); ok {
			require.Equal(t, data[:room], AppendOffer(user, room, got))
		} else {
			require.Equal(t, data, user)
		}
		data = data[:min(len(data), room-OfferSize)]
		user, got, ok := SplitOffer(append(AppendOffer(data, room, limit), 0, 0), room)
		require.True(t, ok)
		require.Equal(t, limit, got)
		require.Equal(t, data, user[:len(data)])
		require.Equal(t, make([]byte, room-OfferSize-len(data)), user[len(data):])
	})
}
