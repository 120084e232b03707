//go:build linux

package soft

import (
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A counted maps the names of a device's counters to their values, except zeros.
type counted map[string]uint64

// countsOf returns the device's counters that are not zero.
func countsOf(t testing.TB, d *device) counted {
	list, err := d.Counters(connmgr.PortNumber)
	require.NoError(t, err)
	got := counted{}
	for _, c := range list {
		if c.Value > 0 {
			got[c.Name] = c.Value
		}
	}
	return got
}

func TestCountersOfTheRequester(t *testing.T) {
	for what, test := range map[string]struct {
		run  func(p *script)
		want counted
	}{
		"a sequence NAK": {func(p *script) {
			p.send(p.nak(wire.NAKSequence, 1))
		}, counted{"completer_retry_err": 1, "rcvd_seq_err": 1}},
		"two NAKs for the same loss": {func(p *script) {
			p.send(p.nak(wire.NAKSequence, 1), p.nak(wire.NAKSequence, 1))
		}, counted{"completer_retry_err": 1, "rcvd_seq_err": 2}},
		"a late sequence NAK": {func(p *script) {
			p.send(p.ack(1), p.nak(wire.NAKSequence, 1))
		}, counted{}},
		"a missing READ response": {func(p *script) {
			p.send(p.ack(2))
		}, counted{"completer_retry_err": 1}},
		"a missing first packet of a READ response": {func(p *script) {
			p.send(p.ack(1), p.response(wire.ReadResponseLast, 3, 1))
		}, counted{"completer_retry_err": 1}},
		"no response": {func(p *script) {
			for range 3 {
				p.advance(scriptTimeout)
			}
		}, counted{"completer_retry_err": 3, "local_ack_timeout_err": 3}},
		"no response until the retries end": {func(p *script) {
			for range 4 {
				p.advance(scriptTimeout)
			}
		}, counted{"completer_retry_err": 3, "local_ack_timeout_err": 3, "retry_exceeded_err": 1}},
		"RNR NAKs": {func(p *script) {
			for range 2 {
				p.send(p.syndrome(wire.RNRNAK(1), 0))
				p.advance(verbs.RNRDelay(1))
			}
		}, counted{"rcvd_rnr_err": 2}},
		"RNR NAKs until the retries end": {func(p *script) {
			for range 3 {
				p.send(p.syndrome(wire.RNRNAK(1), 0))
				p.advance(verbs.RNRDelay(1))
			}
		}, counted{"rcvd_rnr_err": 3, "retry_rnr_exceeded_err": 1}},
		"responses": {func(p *script) {
			p.send(p.ack(1), p.response(wire.ReadResponseFirst, 2, scriptMTU), p.response(wire.ReadResponseLast, 3, 1))
		}, counted{}},
	} {
		t.Run(what, func(t *testing.T) {
			p := newScript(t)
			p.post(1, verbs.OpSend, 1)
			p.post(2, verbs.OpSend, 1)
			p.post(3, verbs.OpRead, scriptMTU+1)
			test.run(p)
			require.Equal(t, test.want, countsOf(t, deviceOf(p.e.qp)))
		})
	}
}

func TestCountersOfTheResponder(t *testing.T) {
	for what, test := range map[string]struct {
		run  func(p *script)
		want counted
	}{
		"a duplicate of a SEND": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.request(wire.SendOnly, 0, 1))
		}, counted{"duplicate_request": 1}},
		"duplicates of a READ": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.read(1, 0, 1))
			p.send(p.read(1, 0, 1))
			p.send(p.read(1, 0, 1))
		}, counted{"duplicate_request": 2}},
		"one gap": {func(p *script) {
			p.send(p.request(wire.SendOnly, 1, 1), p.request(wire.SendOnly, 2, 1))
		}, counted{"out_of_seq_request": 1}},
		"two gaps": {func(p *script) {
			p.send(p.read(1, 0, 1))
			p.send(p.request(wire.SendOnly, 0, 1), p.read(3, 0, 1))
		}, counted{"out_of_seq_request": 2}},
		"no buffer": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.request(wire.SendOnly, 1, 1), p.read(2, 0, 1))
			p.send(p.request(wire.SendOnly, 1, 1))
		}, counted{"out_of_buffer": 2, "send_rnr_err": 2}},
		"no error": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.read(1, 0, 1))
		}, counted{}},
	} {
		t.Run(what, func(t *testing.T) {
			p := newScript(t)
			p.e.recv(1, 0, 1)
			test.run(p)
			require.Equal(t, test.want, countsOf(t, deviceOf(p.e.qp)))
		})
	}
}

// Each side of a connection counts the losses and duplicates that it detects.
func TestCountersOfANetwork(t *testing.T) {
	const packets = 10
	s := newSim(t, 1, netsim.Config{})
	a, b := s.newEnd(), s.newEnd()
	s.join(a, b, func(attr *verbs.QPAttr) { attr.PathMTU = verbs.MTU256 })
	write := func() {
		a.post(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled,
			SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, packets*256)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	for _, step := range []struct {
		why string
		// faults of the network for the first request; the second request has no faults
		net  netsim.Config
		want counted
	}{
		{"no packet is lost", netsim.Config{}, counted{}},
		{"all packets are duplicated", netsim.Config{Duplicate: 1}, counted{"duplicate_request": packets}},
		{"all packets are lost", netsim.Config{Drop: 1}, counted{
			"duplicate_request": packets, "out_of_seq_request": 1, "rcvd_seq_err": 1, "completer_retry_err": 1}},
	} {
		s.net.Config = step.net
		write()
		s.net.Config = netsim.Config{}
		write()
		s.settle()
		require.Len(t, a.drainCQ(), 2)
		require.Equal(t, step.want, countsOf(t, s.dev), step.why)
	}
}

// The local path counts messages without a receive buffer, and requests that fail
// because the peer does not acknowledge them.
func TestCountersOfTheLocalPath(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = 2 })
	b.connect(a, nil)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 1)}})
	require.Equal(t, verbs.StatusRNRRetryExcErr, a.wait(1, b)[0].Status)
	want := counted{"rcvd_rnr_err": 3, "send_rnr_err": 3, "out_of_buffer": 3, "retry_rnr_exceeded_err": 1}
	require.Equal(t, want, countsOf(t, d))

	x, y := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	x.connect(y, func(attr *verbs.QPAttr) { attr.RetryCount, attr.Timeout = 0, 1 })
	y.connect(x, nil)
	require.NoError(t, y.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	x.post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(x.mr, 0, 1)}})
	require.Equal(t, verbs.StatusRetryExcErr, x.wait(1)[0].Status)
	want["retry_exceeded_err"] = 1
	require.Equal(t, want, countsOf(t, d))
}

// A countingQP is a queue pair on the wire path that only counts packets.
type countingQP struct{ got int }

func (e *countingQP) receive(wire.Packet, *udp.Header) { e.got++ }
func (e *countingQP) sendDue() bool                    { return true }

// A counterRig has a shard with one socket on the wire path, and a socket of the test
// that sends to it.
type counterRig struct {
	t     *testing.T
	fd    int       // the socket of the test
	flow  wire.Flow // source and destination address of the datagrams to the shard
	dev   *device
	shard *shard
	route udp.Route // route that keeps the shard's socket open
	qpn   uint32
	end   countingQP
}

func newCounterRig(t *testing.T) *counterRig {
	from, home := netip.MustParseAddr("127.9.0.1"), netip.MustParseAddr("127.9.0.3")
	c := &counterRig{t: t, route: udp.Route{Local: home, Remote: home}}
	c.dev = openDevice(t, &Config{Vectors: 1, Path: PathWire, WirePort: freeport.UDP(t)})
	var err error
	c.shard, err = c.dev.shard(0, verbs.ProgressManual)
	require.NoError(t, err)
	c.fd, err = hostport.UDPSocket(from)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(c.fd) })
	require.NoError(t, unix.SetsockoptInt(c.fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO))
	require.NoError(t, unix.Bind(c.fd, hostport.Sockaddr(from, 0)))
	local, err := hostport.LocalAddr(c.fd)
	require.NoError(t, err)
	c.flow.Set(local, c.addr())
	require.NoError(t, c.shard.udp.Open(&c.route))
	c.qpn = c.dev.numberFor(c.shard.slot, 0x1000)
	c.shard.demux.attach(c.qpn, &c.end)
	return c
}

// addr returns the address of the shard's socket.
func (c *counterRig) addr() netip.AddrPort {
	return netip.AddrPortFrom(c.route.Local, c.dev.cfg.WirePort)
}

// packet returns a SEND packet for the queue pair qpn, with a correct ICRC.
func (c *counterRig) packet(qpn uint32) []byte {
	p := wire.Build(make([]byte, wire.SendOnly.Size(64)), wire.SendOnly, 64)
	p.BTH().SetDestQP(qpn)
	p.BTH().SetPSN(psn.New(1))
	c.flow.Seal(p, 0)
	return p.Bytes()
}

func (c *counterRig) sendRaw(datagrams ...[]byte) {
	to := hostport.Sockaddr(c.addr().Addr(), int(c.addr().Port()))
	for _, b := range datagrams {
		require.NoError(c.t, unix.Sendto(c.fd, b, 0, to))
	}
}

// waitCounted lets the shard receive until its counters add up to the given number. It
// returns the counters.
func (c *counterRig) waitCounted(datagrams uint64) counted {
	for range pollLimit {
		c.shard.udp.Drain(false)
		got, sum := countsOf(c.t, c.dev), uint64(0)
		for _, n := range got {
			sum += n
		}
		if sum >= datagrams {
			return got
		}
	}
	require.FailNow(c.t, "datagrams were not counted", "%v", countsOf(c.t, c.dev))
	return nil
}

// Every datagram that arrives increases exactly one counter.
func TestCountersOfASocket(t *testing.T) {
	c := newCounterRig(t)
	good, nobodys := c.packet(c.qpn), c.packet(c.qpn+c.dev.cfg.slots())
	damaged, unknown, strange := c.packet(c.qpn), c.packet(c.qpn), c.packet(c.qpn)
	damaged[len(damaged)-1] ^= 1
	unknown[0] = 0xff // The first byte is the opcode, and no opcode is 0xff.
	(*wire.BTH)(strange).SetPKey(0x8123)
	resealed, err := wire.Decode(strange)
	require.NoError(t, err)
	c.flow.Seal(resealed, 0)
	c.sendRaw(good, damaged, good, damaged, nobodys, strange, good, unknown)
	require.Equal(t, counted{
		"rcvd_pkts": 3, "rx_icrc_encapsulated": 2, "rcvd_no_qp_err": 2, "rcvd_malformed_err": 1,
	}, c.waitCounted(8))
	require.Equal(t, 3, c.end.got)
	c.shard.udp.Close(&c.route)
}

// shrinkBuffers minimizes the receive buffers of all sockets at the shard's address, so
// that a few datagrams fill them.
func (c *counterRig) shrinkBuffers() {
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(c.t, err)
	for _, f := range open {
		fd, err := strconv.Atoi(f.Name())
		require.NoError(c.t, err)
		if at, err := hostport.LocalAddr(fd); err == nil && at == c.addr() {
			require.NoError(c.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0))
		}
	}
}

// The device counts datagrams that the kernel drops at a full socket. The counters are
// kept when the socket and the device are closed.
func TestCountersAreKept(t *testing.T) {
	const sent = 1000
	c := newCounterRig(t)
	c.shrinkBuffers()
	for range sent {
		c.sendRaw(c.packet(c.qpn))
	}
	got := c.waitCounted(sent)
	require.Positive(t, got["rcvd_overrun_err"])
	require.EqualValues(t, sent, got["rcvd_overrun_err"]+got["rcvd_pkts"])
	c.shard.udp.Close(&c.route)
	require.Equal(t, got, countsOf(t, c.dev))
	require.NoError(t, c.dev.close())
	require.Equal(t, got, countsOf(t, c.dev))
}
