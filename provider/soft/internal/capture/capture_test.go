package capture

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/pcapng"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// events counts the calls of the functions in a Config.
type events struct {
	drops int
	errs  []error
}

func (e *events) config(snap, buffer int) Config {
	return Config{SnapLen: snap, Buffer: buffer, OnDrop: func() { e.drops++ }, OnError: func(err error) { e.errs = append(e.errs, err) }}
}

// A memoryFile is a File in memory that is full after some bytes. If it has the channel writes,
// each write first receives from it.
type memoryFile struct {
	bytes.Buffer
	room   int // number of bytes that may be written
	writes chan struct{}
	closed bool
}

func newMemoryFile(room int) *memoryFile { return &memoryFile{room: room} }

func (f *memoryFile) Write(b []byte) (int, error) {
	if f.writes != nil {
		<-f.writes
	}
	n := min(len(b), f.room)
	f.room -= n
	f.Buffer.Write(b[:n])
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (f *memoryFile) Truncate(size int64) error {
	f.Buffer.Truncate(int(size))
	return nil
}

func (f *memoryFile) Close() error {
	f.closed = true
	return nil
}

func (f *memoryFile) read(t *testing.T) *pcapng.File {
	file, err := pcapng.Read(f.Bytes())
	require.NoError(t, err)
	return file
}

func begin(t *testing.T, f File, cfg Config) *Capture {
	c, err := New(f, cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

var (
	header4 = &Header{From: netip.MustParseAddrPort("192.0.2.1:49152"), To: netip.MustParseAddrPort("192.0.2.2:4791")}
	header6 = &Header{From: netip.MustParseAddrPort("[2001:db8::1]:49152"), To: netip.MustParseAddrPort("[2001:db8::2]:4791"), TrafficClass: 0x6b, HopLimit: 3}
)

// message returns a packet with a payload of n bytes and the given IP identification.
func message(h *Header, n int, id uint16) []byte {
	p := wire.Build(make([]byte, wire.MaxPacket), wire.SendOnly, n)
	for i := range p.Payload() {
		p.Payload()[i] = byte(i)
	}
	var f wire.Flow
	f.Set(h.From, h.To)
	f.Seal(p, id)
	return p.Bytes()
}

// Packets of the wire path have made-up headers to which their ICRC belongs.
func TestPackets(t *testing.T) {
	var e events
	f := newMemoryFile(1 << 20)
	c := begin(t, f, e.config(1<<16, 1<<16))
	tap := c.NewTap()
	var want [][]byte
	for i, n := range []int{0, 1, 2, 3, 64, 4096} {
		for _, h := range []*Header{header4, header6} {
			p := message(h, n, uint16(40000+i))
			tap.Packet(Direction(1+i%2), h, p)
			want = append(want, p)
		}
	}
	c.Close()
	require.True(t, f.closed)
	got := f.read(t)
	require.Len(t, got.Packets, len(want))
	for i, p := range got.Packets {
		require.NoError(t, p.CheckRoCE(4791), i)
		require.Equal(t, "wire", p.Interface)
		require.Equal(t, i/2%2 == 1, p.Outbound)
		require.Equal(t, want[i], p.Data[len(p.Data)-len(want[i]):])
		require.False(t, i > 0 && p.Time < got.Packets[i-1].Time)
	}
	ip6 := got.Packets[1].Data
	require.Equal(t, []byte{0x66, 0xb0, 0, 0}, ip6[:4])
	require.EqualValues(t, 3, ip6[7])
	require.Equal(t, map[string]pcapng.Stats{"wire": {Received: 12}, "local": {}}, got.Stats)
	require.Zero(t, e.drops)
	require.Empty(t, e.errs)
	c.Close()
}

// A datagram that is no packet of RoCEv2 is recorded as it is.
func TestGarbage(t *testing.T) {
	var e events
	f := newMemoryFile(1 << 20)
	c := begin(t, f, e.config(1<<16, 1<<16))
	tap := c.NewTap()
	damaged := message(header4, 64, 7)
	damaged[20] ^= 1
	for _, p := range [][]byte{nil, {1, 2, 3}, damaged} {
		tap.Packet(Inbound, header4, p)
	}
	c.Close()
	got := f.read(t)
	require.Len(t, got.Packets, 3)
	require.Equal(t, []byte{1, 2, 3}, got.Packets[1].Data[28:])
	require.ErrorContains(t, got.Packets[2].CheckRoCE(4791), "ICRC")
}

// The snap length cuts packets, and the file says how long they were.
func TestSnapLength(t *testing.T) {
	for _, snap := range []int{1, 20, 27, 28, 29, 64, 95} {
		var e events
		f := newMemoryFile(1 << 20)
		c := begin(t, f, e.config(snap, 1<<16))
		tap := c.NewTap()
		p := message(header4, 61, 1)
		tap.Packet(Inbound, header4, p)
		tap.Packet(Inbound, header6, message(header6, 100, 1))
		c.Close()
		got := f.read(t).Packets
		require.Len(t, got, 2)
		require.Len(t, got[0].Data, snap)
		require.Equal(t, 28+len(p), got[0].Length)
		require.Len(t, got[1].Data, snap)
		require.Equal(t, p[:max(0, snap-28)], got[0].Data[min(28, snap):])
	}
}

// A tap with a full ring drops packets and counts them. It does not wait.
func TestFullRing(t *testing.T) {
	var e events
	f := newMemoryFile(1 << 30)
	f.writes = make(chan struct{}, 1)
	f.writes <- struct{}{} // for the header of the file
	c := begin(t, f, e.config(1<<16, 1<<12))
	tap, other := c.NewTap(), c.NewTap()
	const n = 5000
	p := message(header4, 64, 1)
	for range n {
		tap.Packet(Inbound, header4, p)
	}
	other.Packet(Inbound, header4, p)
	dropped := tap.dropped[Wire].Load()
	require.Positive(t, dropped)
	close(f.writes)
	c.Close()
	require.Equal(t, dropped, c.Dropped())
	got := f.read(t)
	require.Len(t, got.Packets, n+1-int(dropped))
	require.Equal(t, pcapng.Stats{Received: n + 1, Dropped: dropped}, got.Stats["wire"])
	require.Positive(t, e.drops)
}

// Blocks that go over the end of the ring, in all positions, arrive whole.
func TestRingWraps(t *testing.T) {
	r := ring{buf: make([]byte, 1<<12)}
	var out, want []byte
	for i := range 1000 {
		b := appendPacketHead(nil, Wire, time.Unix(int64(i), 0), i%61, i)
		b = append(b, bytes.Repeat([]byte{byte(i)}, i%61)...)
		b = appendPacketTail(b, Inbound, i%61)
		require.Zero(t, len(b)%4)
		require.True(t, r.fits(len(b)))
		r.write(b[:20])
		r.write(b[20:])
		r.publish()
		want = append(want, b...)
		var head [packetHead]byte
		for r.until = r.filled.Load(); i%5 == 4 && r.head(&head); {
			out = r.take(out, sizeOf(head[:]))
		}
	}
	require.Equal(t, want, out)
}

// Packets of several taps are written in the order of their times.
func TestOrderOfTaps(t *testing.T) {
	var e events
	f := newMemoryFile(1 << 20)
	f.writes = make(chan struct{}, 1)
	f.writes <- struct{}{}
	c := begin(t, f, e.config(1<<16, 1<<16))
	taps := []*Tap{c.NewTap(), c.NewSharedTap(), c.NewTap()}
	for i := range 90 {
		taps[i*7%3].Packet(Inbound, header4, message(header4, i, 0))
	}
	close(f.writes)
	c.Close()
	got := f.read(t).Packets
	require.Len(t, got, 90)
	for i := range got[1:] {
		require.LessOrEqual(t, got[i].Time, got[i+1].Time)
	}
}

// When the file is full, the file keeps its whole blocks, one error is reported, and further
// packets are counted.
func TestFullFile(t *testing.T) {
	var e events
	p := message(header4, 64, 1)
	block := packetBlock(28 + len(p))
	f := newMemoryFile(len(appendHeader(nil, 1<<16)) + 5*block/2)
	c := begin(t, f, e.config(1<<16, 1<<20))
	tap := c.NewTap()
	for range 10 {
		tap.Packet(Inbound, header4, p)
	}
	for !c.failed.Load() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	for range 5 {
		tap.Packet(Inbound, header4, p)
	}
	c.Close()
	require.Equal(t, []error{syscall.ENOSPC}, e.errs)
	require.Len(t, f.read(t).Packets, 2)
	require.EqualValues(t, 13, c.Dropped())
	require.Positive(t, e.drops)
}

// fullDisk is /dev/full, whose first write, of the header, succeeds.
type fullDisk struct {
	*os.File
	begun bool
}

func (f *fullDisk) Write(b []byte) (int, error) {
	if !f.begun {
		f.begun = true
		return len(b), nil
	}
	return f.File.Write(b)
}

func TestFullDisk(t *testing.T) {
	file, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	var e events
	_, err = New(file, e.config(1<<16, 1<<16))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "/dev/full")

	c := begin(t, &fullDisk{File: file}, e.config(1<<16, 1<<16))
	tap := c.NewTap()
	for range 100 {
		tap.Packet(Inbound, header4, message(header4, 64, 1))
	}
	c.Close()
	require.Len(t, e.errs, 1)
	require.ErrorIs(t, e.errs[0], syscall.ENOSPC)
	require.EqualValues(t, 100, c.Dropped())
}

// An error of Close, with which some file systems report a full disk, is reported too.
func TestCloseFails(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	var e events
	c := begin(t, &closingFails{file}, e.config(1<<16, 1<<16))
	c.Close()
	require.Equal(t, []error{io.ErrUnexpectedEOF}, e.errs)
}

type closingFails struct{ *os.File }

func (f *closingFails) Close() error {
	if err := f.File.Close(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// Without a capture there are no taps, and the methods of the missing capture do nothing.
func TestNoCapture(t *testing.T) {
	var c *Capture
	require.Nil(t, c.NewTap())
	require.Nil(t, c.NewSharedTap())
	require.Zero(t, c.Dropped())
	c.Close()
}

// A tap does not allocate, nor does an RC in the long run.
func TestAllocations(t *testing.T) {
	var e events
	c := begin(t, newMemoryFile(1<<30), e.config(1<<16, 1<<12))
	tap := c.NewTap()
	p, packet := message(header4, 64, 1), wire.Build(make([]byte, wire.MaxPacket), wire.SendOnly, 64)
	rc := tap.NewRC(&Ends{Local: header4.From.Addr(), Remote: header4.To.Addr()}, testMTU, 0)
	seq, one := uint64(0), send(600)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		rc.Sent(one, true, seq, seq)
		seq++
		rc.Acked(seq)
		rc.Received(one, true)
		tap.Packet(Inbound, header4, p)
		tap.LocalPacket(Outbound, header6, packet)
	}))
}
