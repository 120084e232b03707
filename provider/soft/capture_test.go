//go:build linux

package soft

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/limitlog"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/pcapng"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An echoer sends every message back.
type echoer struct{ reactor.BaseHandler }

func (echoer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if err := c.Send(msg.Data(), nil); err != nil {
		c.Abort(err)
	}
}

// An asker sends messages of size bytes one after another, until left are answered.
type asker struct {
	reactor.BaseHandler
	size, left int
	done       chan error
}

func (a *asker) OnOpen(c *reactor.Conn) { a.send(c) }

func (a *asker) OnMessage(c *reactor.Conn, _ reactor.Message) {
	if a.left--; a.left > 0 {
		a.send(c)
		return
	}
	c.Close()
}

func (a *asker) send(c *reactor.Conn) {
	if err := c.Send(make([]byte, a.size), nil); err != nil {
		c.Abort(err)
	}
}

func (a *asker) OnClose(_ *reactor.Conn, err error) { a.done <- err }

func (a *asker) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	a.done <- err
}

// echoes sends messages of size bytes to an echoer and back, over the device of a provider. It
// closes the provider.
func echoes(t *testing.T, p *Provider, messages, size int) {
	t.Helper()
	engine, err := reactor.New(p, echoer{}, &reactor.Config{MaxMessage: max(size, 1)})
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	l, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	a := &asker{size: size, left: messages, done: make(chan error, 1)}
	require.NoError(t, engine.Dial(l.Addr(), &reactor.DialOptions{Handler: a}))
	require.NoError(t, <-a.done)
	require.NoError(t, engine.Shutdown(context.Background()))
	require.NoError(t, p.Close())
}

// readCapture reads a file, and checks all packets in it.
func readCapture(t *testing.T, name string, port uint16) *pcapng.File {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	f, err := pcapng.Read(b)
	require.NoError(t, err)
	for i, p := range f.Packets {
		require.NoError(t, p.CheckRoCE(port), "packet %d", i)
	}
	return f
}

// packetOf returns the payload of the UDP datagram of a packet.
func packetOf(t *testing.T, p *pcapng.Packet) wire.Packet {
	udp := 20
	if p.Data[0]>>4 == 6 {
		udp = 40
	}
	packet, err := wire.Decode(p.Data[udp+8:])
	require.NoError(t, err)
	return packet
}

// opcodes counts the packets of a file by direction, opcode, attribute of a MAD, and syndrome of
// an acknowledgement.
func opcodes(t *testing.T, f *pcapng.File) map[string]int {
	counts := make(map[string]int)
	for _, p := range f.Packets {
		packet := packetOf(t, &p)
		key := "< "
		if p.Outbound {
			key = "> "
		}
		if packet.BTH().DestQP() == wire.GSIQPN {
			m, err := wire.DecodeMAD(packet.Payload())
			require.NoError(t, err)
			key += fmt.Sprintf("MAD %#x", m.Attribute())
		} else {
			key += packet.Opcode().String()
		}
		if packet.Opcode() == wire.Acknowledge {
			key += " " + packet.AETH().Syndrome().String()
		}
		counts[key]++
	}
	return counts
}

// A connection on the local path is in the file from the REQ to the DREP, with all packets of
// the messages, on both sides.
func TestCaptureLocal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "local.pcapng")
	p, err := Open(&Config{Path: PathLocal, Capture: &Capture{File: name}})
	require.NoError(t, err)
	echoes(t, p, 10, 10_000)
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	f := readCapture(t, name, wire.UDPPort)
	got := opcodes(t, f)
	for _, d := range []string{"<", ">"} {
		for what, n := range map[string]int{
			"MAD 0x10": 1, "MAD 0x13": 1, "MAD 0x14": 1, "MAD 0x15": 1, "MAD 0x16": 1,
			"SEND_FIRST": 20, "SEND_MIDDLE": 20, "SEND_LAST": 20,
		} {
			require.Equal(t, n, got[d+" "+what], "%s %s of %v", d, what, got)
		}
		require.Positive(t, got[d+" ACKNOWLEDGE ACK"])
	}
	require.Equal(t, pcapng.Stats{Received: uint64(len(f.Packets))}, f.Stats["local"])
	checkPSNs(t, f)
}

// checkPSNs requires that the requests of each queue pair have consecutive PSNs, and that what
// one side has sent is what the other one has received.
func checkPSNs(t *testing.T, f *pcapng.File) {
	type flow struct {
		dest     uint32
		outbound bool
	}
	next, bytesOf := make(map[flow]uint32), make(map[flow][]byte)
	for _, p := range f.Packets {
		packet := packetOf(t, &p)
		if packet.BTH().DestQP() == wire.GSIQPN || packet.Opcode().Response() {
			continue
		}
		k := flow{packet.BTH().DestQP(), p.Outbound}
		num := uint32(packet.BTH().PSN())
		if want, ok := next[k]; ok {
			require.Equal(t, want, num)
		}
		next[k] = (num + 1) & verbs.MaxPSN
		bytesOf[k] = append(bytesOf[k], p.Data...)
	}
	require.NotEmpty(t, next)
	for k := range bytesOf {
		require.Equal(t, bytesOf[flow{k.dest, false}], bytesOf[flow{k.dest, true}], "queue pair %d", k.dest)
	}
}

// captured runs a function with a device of the local path, and returns its capture.
func captured(t *testing.T, run func(t *testing.T, d *device)) *pcapng.File {
	name := filepath.Join(t.TempDir(), "file.pcapng")
	t.Run("device", func(t *testing.T) { run(t, openDevice(t, &Config{Path: PathLocal, Capture: &Capture{File: name}})) })
	return readCapture(t, name, wire.UDPPort)
}

// A refused message, requests that the responder executes, requests that the requester executes
// itself, and a failure are in the file. What the requester executes itself, the responder does
// not see.
func TestCaptureOperations(t *testing.T) {
	got := opcodes(t, captured(t, func(t *testing.T, d *device) {
		a, b := qptest.NewPair(t, d, verbs.ProgressManual)
		a.Send(1, 10)
		b.PollN(100)
		b.Recv(1, 0, 100)
		a.Wait(1, b)
		require.Equal(t, verbs.StatusSuccess, b.Wait(1)[0].Status)
		a.Post(a.Remote(verbs.OpRead, b, 5000))
		require.Equal(t, verbs.StatusSuccess, a.WaitStatus(b))
		a.PollN(100)
		a.RequireDirect(a.Remote(verbs.OpWrite, b, 5000))
		a.RequireDirect(a.Remote(verbs.OpFetchAdd, b, 8))
		a.RequireDirect(a.Remote(verbs.OpRead, b, 100))
		wrong := a.Remote(verbs.OpWrite, b, 100)
		wrong.RKey++
		a.Post(wrong)
		require.Equal(t, verbs.StatusRemAccessErr, a.WaitStatus(b))
	}))
	require.Equal(t, map[string]int{
		"> SEND_ONLY": 2, "< SEND_ONLY": 2, "> ACKNOWLEDGE RNR NAK, timer code 1": 1, "< ACKNOWLEDGE RNR NAK, timer code 1": 1,
		"> ACKNOWLEDGE ACK": 1, "< ACKNOWLEDGE ACK": 2, // one of a direct WRITE
		"> READ_REQUEST": 2, "< READ_REQUEST": 1,
		"> READ_RESPONSE_FIRST": 1, "> READ_RESPONSE_LAST": 1, "< READ_RESPONSE_FIRST": 1, "< READ_RESPONSE_LAST": 1,
		"> WRITE_FIRST": 1, "> WRITE_LAST": 1,
		"> FETCH_ADD": 1, "< ATOMIC_ACKNOWLEDGE": 1, "< READ_RESPONSE_ONLY": 1,
		"> WRITE_ONLY": 1, "< WRITE_ONLY": 1, "> ACKNOWLEDGE NAK: remote access error": 1, "< ACKNOWLEDGE NAK: remote access error": 1,
	}, got)
}

// A message that takes the shortest way, through QP.SendInline and CQAttr.Inline, is in the
// file too.
func TestCaptureInline(t *testing.T) {
	got := opcodes(t, captured(t, func(t *testing.T, d *device) {
		a, b := qptest.NewPair(t, d, verbs.ProgressManual)
		b.RecvInline()
		b.Recv(1, 0, 100)
		require.True(t, a.QP.SendInline(1, verbs.SendSignaled, []byte("hello")))
		a.QP.Doorbell()
		_, data := b.WaitInline(1)
		require.Equal(t, [][]byte{[]byte("hello")}, data)
		a.Wait(1, b)
	}))
	require.Equal(t, map[string]int{"> SEND_ONLY": 1, "< SEND_ONLY": 1, "> ACKNOWLEDGE ACK": 1, "< ACKNOWLEDGE ACK": 1}, got)
}

func TestCaptureDatagrams(t *testing.T) {
	f := captured(t, func(t *testing.T, d *device) {
		a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 0, verbs.ProgressManual)
		a.BecomeUD(16)
		b.BecomeUD(16)
		to, err := a.PD.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(netip.MustParseAddr("127.0.0.1")), Port: 1})
		require.NoError(t, err)
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm} {
			b.Recv(1, 0, 100)
			a.Post(verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, Imm: 9, AH: to, RemoteQPN: b.QP.Num(), RemoteQKey: qptest.DatagramQKey,
				SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}})
			b.Wait(1, a)
			a.Wait(1)
		}
		require.NoError(t, to.Close())
	})
	require.Equal(t, map[string]int{"> UD_SEND_ONLY": 1, "< UD_SEND_ONLY": 1, "> UD_SEND_ONLY_IMM": 1, "< UD_SEND_ONLY_IMM": 1}, opcodes(t, f))
	last := packetOf(t, &f.Packets[3])
	require.EqualValues(t, 9, last.ImmDt().Value())
	require.EqualValues(t, qptest.DatagramQKey, last.DETH().QKey())
	require.EqualValues(t, 1, last.BTH().PSN())
}

// On the wire path the file has what the device has counted.
func TestCaptureWire(t *testing.T) {
	name, port := filepath.Join(t.TempDir(), "wire.pcapng"), freeport.UDP(t)
	p, err := Open(&Config{Path: PathWire, WirePort: port, Capture: &Capture{File: name}})
	require.NoError(t, err)
	echoes(t, p, 10, 10_000)
	f := readCapture(t, name, port)
	sent, received := directions(f)
	require.Equal(t, p.dev.counter(t, "sent_pkts"), sent)
	require.Equal(t, p.dev.counter(t, "rcvd_pkts"), received)
	got := opcodes(t, f)
	require.Equal(t, 20, got["> SEND_MIDDLE"])
	require.Equal(t, pcapng.Stats{Received: uint64(len(f.Packets))}, f.Stats["wire"])
}

func directions(f *pcapng.File) (sent, received uint64) {
	for _, p := range f.Packets {
		if p.Outbound {
			sent++
		} else {
			received++
		}
	}
	return sent, received
}

// counter returns the value of a counter, also after Close.
func (d *device) counter(t *testing.T, name string) uint64 {
	list, err := d.Counters(1)
	require.NoError(t, err)
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

// The snap length counts from the IP header.
func TestCaptureSnapLength(t *testing.T) {
	name := filepath.Join(t.TempDir(), "snap.pcapng")
	p, err := Open(&Config{Path: PathLocal, Capture: &Capture{File: name, SnapLen: 50}})
	require.NoError(t, err)
	echoes(t, p, 1, 5000)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	f, err := pcapng.Read(b)
	require.NoError(t, err)
	cut := 0
	for _, p := range f.Packets {
		require.Len(t, p.Data, min(50, p.Length))
		if p.Length == 28+wire.BTHSize+4096+wire.ICRCSize {
			cut++
		}
	}
	require.Equal(t, 4, cut)
}

// A file that can not be made is an error of Open, which names it. No file is overwritten, and
// no symbolic link is followed.
func TestCaptureFileErrors(t *testing.T) {
	dir := t.TempDir()
	exists, link := filepath.Join(dir, "exists"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(exists, []byte("old"), 0o666))
	require.NoError(t, os.Symlink(filepath.Join(dir, "target"), link))
	for name, want := range map[string]error{
		filepath.Join(dir, "none", "file"): fs.ErrNotExist,
		exists:                             fs.ErrExist,
		link:                               fs.ErrExist,
		dir:                                fs.ErrExist,
		exists + "/file":                   syscall.ENOTDIR,
	} {
		_, err := Open(&Config{Capture: &Capture{File: name}})
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, name)
	}
	text, err := os.ReadFile(exists)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	require.NoFileExists(t, filepath.Join(dir, "target"))
}

func TestCaptureConfig(t *testing.T) {
	for field, c := range map[string]Capture{
		"Capture.File":    {},
		"Capture.SnapLen": {File: "x", SnapLen: -1},
		"Capture.Buffer":  {File: "x", Buffer: 1 << 15},
	} {
		_, err := Open(&Config{Capture: &c})
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.Equal(t, field, param.Field)
	}
	_, err := Open(&Config{Capture: &Capture{File: "x", Buffer: 100_000}})
	require.ErrorContains(t, err, "not a power of two")
	_, err = Open(&Config{Capture: &Capture{File: "x", SnapLen: 1 << 16}})
	require.ErrorContains(t, err, "Capture.SnapLen")
	_, err = Open(&Config{Capture: &Capture{File: "x", Buffer: 3 << 16}})
	require.ErrorContains(t, err, "Capture.Buffer")
	require.NoFileExists(t, "x")
}

// A fullDisk is /dev/full, to which the header of the file can be written.
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

// A full disk is logged once and counted. Connections do not notice it.
func TestCaptureFullDisk(t *testing.T) {
	file, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	var text bytes.Buffer
	cfg, err := (&Config{
		Path: PathLocal, Capture: &Capture{File: "/dev/full"}, Logger: slog.New(slog.NewTextHandler(&text, nil)),
	}).withDefaults()
	require.NoError(t, err)
	log := limitlog.New(cfg.Logger)
	to, err := beginCapture(&fullDisk{File: file}, cfg.Capture, log)
	require.NoError(t, err)
	dev, err := newDevice(nil, &cfg, log, to)
	require.NoError(t, err)
	echoes(t, &Provider{dev: dev}, 1000, 1000)
	require.GreaterOrEqual(t, dev.counter(t, "capture_dropped"), uint64(4000))
	require.Equal(t, 1, strings.Count(text.String(), "level=ERROR"), text.String())
	require.Contains(t, text.String(), "no space left on device")
	require.Contains(t, text.String(), "file=/dev/full")
	require.Contains(t, text.String(), "counter=capture_dropped")
}
