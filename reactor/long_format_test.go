package reactor

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzControl checks that a control message that decode accepts is encoded to the same
// bytes again.
func FuzzControl(f *testing.F) {
	m := control{kind: controlAnnounce, hasImm: true, number: 7}
	for i := range uint32(maxSegments) {
		m.add(segment{remote: Remote{Addr: uint64(i) << 40, RKey: i}, length: 1 + i})
		f.Add(m.appendTo(nil))
	}
	f.Add((&control{kind: controlDone, number: 1<<32 - 1}).appendTo(nil))
	f.Add((&control{kind: controlRename, number: 5}).appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m control
		if m.decode(b) != "" {
			return
		}
		require.Equal(t, b, m.appendTo(nil))
		require.LessOrEqual(t, m.count, maxSegments)
		sum := uint64(0)
		for _, s := range m.segments[:m.count] {
			require.NotZero(t, s.length)
			sum += uint64(s.length)
		}
		require.Equal(t, sum, m.total)
		require.Equal(t, m.kind == controlAnnounce, m.count > 0)
	})
}

// TestControlErrors checks that wrong control messages are refused.
func TestControlErrors(t *testing.T) {
	good := (&control{kind: controlAnnounce, segments: [maxSegments]segment{{length: 1}}, count: 1}).appendTo(nil)
	var m control
	require.Empty(t, m.decode(good))
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
		"done with bytes":  change(0, byte(controlDone)),
		"flag 2":           change(1, 2),
		"reserved byte":    change(3, 1),
		"no segments":      change(2, 0)[:controlHeader],
		"missing segment":  change(2, 2),
		"too many":         append(change(2, maxSegments+1), make([]byte, maxSegments*segmentSize)...),
		"more bytes":       append(bytes.Clone(good), 0),
		"fewer bytes":      good[:len(good)-1],
		"length 0":         change(len(good)-1, 0),
		"number, not flag": change(7, 1),
		"wrapped address":  append(binary.BigEndian.AppendUint64(bytes.Clone(good[:controlHeader]), 1<<64-1), 0, 0, 0, 0, 0, 0, 0, 2),
	} {
		require.NotEmpty(t, m.decode(b), name)
	}
}

// FuzzOffer checks that splitOffer separates what appendOffer has joined.
func FuzzOffer(f *testing.F) {
	f.Add([]byte("private"), uint32(5))
	f.Add(make([]byte, 56), uint32(0))
	f.Add(appendOffer(nil, 56, 7), uint32(9))
	f.Fuzz(func(t *testing.T, data []byte, limit uint32) {
		const room = 56
		if user, got, ok := splitOffer(data, room); ok {
			require.Equal(t, data[:room], appendOffer(user, room, got))
		} else {
			require.Equal(t, data, user)
		}
		data = data[:min(len(data), room-offerSize)]
		user, got, ok := splitOffer(append(appendOffer(data, room, limit), 0, 0), room)
		require.True(t, ok)
		require.Equal(t, limit, got)
		require.Equal(t, data, user[:len(data)])
		require.Equal(t, make([]byte, room-offerSize-len(data)), user[len(data):])
	})
}
