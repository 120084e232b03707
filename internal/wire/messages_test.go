package wire_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A message is a message of the connection manager, for example a *wire.REQ.
type message interface {
	Encode(m *wire.MAD, tid uint64)
	Decode(m *wire.MAD)
}

// newMessage creates empty messages, by attribute.
var newMessage = map[wire.Attribute]func() message{
	wire.AttrREQ:     func() message { return new(wire.REQ) },
	wire.AttrMRA:     func() message { return new(wire.MRA) },
	wire.AttrREJ:     func() message { return new(wire.REJ) },
	wire.AttrREP:     func() message { return new(wire.REP) },
	wire.AttrRTU:     func() message { return new(wire.RTU) },
	wire.AttrDREQ:    func() message { return new(wire.DREQ) },
	wire.AttrDREP:    func() message { return new(wire.DREP) },
	wire.AttrSIDRREQ: func() message { return new(wire.SIDRREQ) },
	wire.AttrSIDRREP: func() message { return new(wire.SIDRREP) },
}

const tid = 0x0123456789abcdef

// requireLayout checks that Encode produces the expected bytes and Decode converts them
// back. The keys of data are offsets after the MAD header. All other bytes are zero.
func requireLayout(t *testing.T, attr wire.Attribute, m message, data map[int]string) {
	t.Helper()
	want := unhex(t, "01070203 00000000 0123456789abcdef")
	want = append(want, 0, byte(attr))
	want = append(want, make([]byte, wire.MADSize-len(want))...)
	for off, text := range data {
		copy(want[wire.MADDataOffset+off:], unhex(t, text))
	}
	// Encode must overwrite these bytes.
	got := wire.MAD(slices.Repeat([]byte{0xee}, wire.MADSize))
	m.Encode(&got, tid)
	require.Equal(t, want, got[:])

	back := newMessage[attr]()
	back.Decode(&got)
	require.Equal(t, m, back)
	require.Equal(t, uint64(tid), got.TID())
	require.Equal(t, attr, got.Attribute())
}

// pattern returns n different letters, to detect wrong offsets.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('A' + i%26)
	}
	return b
}

// TestReservedBits checks that Encode writes reserved bits as zero and Decode ignores
// them.
func TestReservedBits(t *testing.T) {
	for attr, reserved := range map[wire.Attribute][]byteRange{
		wire.AttrREQ:     {{4, 8}, {24, 28}, {36, 39}, {40, 43}, {96, 140}},
		wire.AttrREP:     {{15, 20}, {23, 24}},
		wire.AttrREJ:     nil,
		wire.AttrMRA:     nil,
		wire.AttrRTU:     nil,
		wire.AttrDREQ:    {{11, 12}},
		wire.AttrDREP:    nil,
		wire.AttrSIDRREQ: {{6, 8}},
		wire.AttrSIDRREP: {{6, 8}, {11, 12}},
	} {
		fields := fieldsOf(attr)
		for i, b := range fields[wire.MADDataOffset:] {
			want, some := partlyReserved[attr][i]
			switch {
			case some:
				require.Equal(t, want, b, "attribute %#x, byte %d", attr, i)
			case slices.ContainsFunc(reserved, func(r byteRange) bool { return r.from <= i && i < r.to }):
				require.Zero(t, b, "attribute %#x, byte %d", attr, i)
			default:
				require.Equal(t, byte(0xff), b, "attribute %#x, byte %d", attr, i)
			}
		}
	}
}

type byteRange struct{ from, to int }

// partlyReserved lists the bytes in which some bits are reserved and others are not, by
// attribute and offset. In the value, the reserved bits are 0 and the other bits are 1.
var partlyReserved = map[wire.Attribute]map[int]byte{
	wire.AttrREQ: {50: 0xf7, 51: 0xf8, 90: 0xf0, 91: 0x3f, 94: 0xf8, 95: 0xf8},
	wire.AttrREP: {27: 0xf0},
	wire.AttrREJ: {8: 0xc0, 9: 0xfe},
	wire.AttrMRA: {8: 0xc0, 9: 0xf8},
}

func TestMessagesDoNotAllocate(t *testing.T) {
	var m wire.MAD
	var req wire.REQ
	var rep wire.REP
	var rtu wire.RTU
	allocs := testing.AllocsPerRun(100, func() {
		req.Encode(&m, tid)
		req.Decode(&m)
		rep.Encode(&m, tid)
		rep.Decode(&m)
		rtu.Encode(&m, tid)
		rtu.Decode(&m)
	})
	require.Zero(t, allocs)
}

func TestEveryAttributeHasAMessage(t *testing.T) {
	require.Equal(t,
		[]wire.Attribute{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18},
		slices.Sorted(maps.Keys(newMessage)))
}

// fieldsOf returns a MAD with ones in all fields and zeros in the reserved bits.
func fieldsOf(attr wire.Attribute) (fields wire.MAD) {
	ones := wire.MAD(slices.Repeat([]byte{0xff}, wire.MADSize))
	m := newMessage[attr]()
	m.Decode(&ones)
	m.Encode(&fields, 0)
	return fields
}

// cmSeed returns the header of a message, as a seed for fuzzing.
func cmSeed(attr wire.Attribute) []byte {
	var m wire.MAD
	newMessage[attr]().Encode(&m, tid)
	return m[:wire.MADDataOffset]
}

// TestValuesAreTruncated checks that a value that is too large does not change other
// fields.
func TestValuesAreTruncated(t *testing.T) {
	var m wire.MAD
	(&wire.REQ{QPN: 0xffffffff, RetryCount: 0xff, MTU: 0xff, Primary: wire.Path{FlowLabel: 0xffffffff}}).Encode(&m, tid)
	data := m[wire.MADDataOffset:]
	require.Equal(t, unhex(t, "00000000 ffffff 00"), data[28:36])
	require.Equal(t, unhex(t, "07 0000 f0"), data[47:51])
	require.Equal(t, unhex(t, "fffff000"), data[88:92])
}
