package closemsg

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// samples has messages with extreme fields.
func samples() []Message {
	return []Message{
		{},
		{Kind: 1},
		{Kind: math.MaxUint8, Code: math.MaxUint32, Text: strings.Repeat("x", MaxText)},
		{Kind: 2, Code: 7, Text: "text that ends with zeros\x00\x00"},
		{Kind: 2, Text: string(make([]byte, MaxText))},
	}
}

// TestLayout holds the format still, because both ends of a connection may have different
// versions of the library.
func TestLayout(t *testing.T) {
	m := Message{Kind: 2, Code: 0x01020304, Text: "bye"}
	require.Equal(t, "72646d616c6f6f70"+"01"+"02"+"00"+"03"+"01020304"+"fcd7c7b3"+"627965", hex.EncodeToString(m.AppendTo(nil)))
}

func TestRoundTrip(t *testing.T) {
	for _, want := range samples() {
		b := want.AppendTo([]byte("before"))[len("before"):]
		for _, padding := range []int{0, 1, MaxSize} {
			got, ok := Decode(append(bytes.Clone(b), make([]byte, padding)...))
			require.True(t, ok)
			require.Equal(t, want, got)
		}
	}
}

// TestDecodeRefuses checks that damage, and what other programs send, is not taken for a
// message.
func TestDecodeRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"zeros":              make([]byte, MaxSize),
		"a text":             []byte("connection closed by the administrator of this host"),
		"only the magic":     []byte(magic),
		"magic, then zeros":  append([]byte(magic), make([]byte, MaxSize-len(magic))...),
		"magic, then a text": []byte(magic + strings.Repeat(" is the name of a library.", 8)),
	} {
		_, ok := Decode(b)
		require.False(t, ok, name)
	}
	for _, m := range samples() {
		b := m.AppendTo(nil)
		for bit := range len(b) * 8 {
			damaged := bytes.Clone(b)
			damaged[bit/8] ^= 1 << (bit % 8)
			_, ok := Decode(damaged)
			require.False(t, ok, "bit %d", bit)
		}
		_, ok := Decode(append(bytes.Clone(b), 0, 1))
		require.False(t, ok, "the padding is not zero")
	}
}

// TestDecodeRefusesCutData checks data that was cut, and data that was cut and padded. That
// can only be found out if what was cut was not padding itself.
func TestDecodeRefusesCutData(t *testing.T) {
	for _, m := range samples() {
		whole := m.AppendTo(nil)
		for n := range whole {
			_, ok := Decode(whole[:n])
			require.False(t, ok, n)
			cut := append(bytes.Clone(whole[:n]), make([]byte, MaxSize-n)...)
			_, ok = Decode(cut)
			require.Equal(t, len(bytes.TrimRight(whole, "\x00")) <= n, ok, n)
		}
	}
}

// FuzzDecode checks that Decode accepts only what AppendTo makes, with zeros behind it.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := Decode(b)
		if !ok {
			require.Zero(t, m)
			return
		}
		require.LessOrEqual(t, len(m.Text), MaxText)
		again := m.AppendTo(nil)
		require.Equal(t, again, b[:len(again)])
		require.Empty(t, bytes.Trim(b[len(again):], "\x00"))
	})
}
