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
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A counted maps the names of a device's counters to their values, except zeros and gauges.
type counted map[string]uint64

// countsOf returns the device's counters that are not zero, without gauges.
func countsOf(t testing.TB, d *device) counted {
	list, err := d.Counters(connmgr.PortNumber)
	require.NoError(t, err)
	got := counted{}
	for _, c := range list {
		if c.Value > 0 && !c.Gauge {
			got[c.Name] = c.Value
		}
	}
	return got
}

// A countedDevice is a device with a UD queue pair on the wire path, and a socket of the
// test that sends to it.
type countedDevice struct {
	t    *testing.T
	fd   int            // the socket of the test
	flow wire.Flow      // source and destination address of the datagrams to the device
	at   netip.AddrPort // address of the device
	dev  *device
	end  *qptest.End
	got  int // number of datagrams that the queue pair has received
}

// newCountedDevice makes a device whose queue pair has the given number of receive
// buffers.
func newCountedDevice(t *testing.T, buffers int) *countedDevice {
	from, port := netip.MustParseAddr("127.9.0.1"), freeport.UDP(t)
	c := &countedDevice{t: t, at: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)}
	c.dev = openDevice(t, &Config{Path: PathWire, WirePort: port})
	c.end = qptest.NewEnd(t, c.dev, 0, verbs.ProgressManual)
	c.end.BecomeUD(buffers)
	for range buffers {
		c.end.Recv(0, 0, 200)
	}
	var err error
	c.fd, err = hostport.UDPSocket(from)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(c.fd) })
	require.NoError(t, unix.SetsockoptInt(c.fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO))
	require.NoError(t, unix.Bind(c.fd, hostport.Sockaddr(from, 0)))
	local, err := hostport.LocalAddr(c.fd)
	require.NoError(t, err)
	c.flow.Set(local, c.at)
	return c
}

// packet returns a datagram for the queue pair qpn, with a correct ICRC.
func (c *countedDevice) packet(qpn uint32) []byte {
	p := wire.Build(make([]byte, wire.UDSendOnly.Size(64)), wire.UDSendOnly, 64)
	p.BTH().SetDestQP(qpn)
	p.BTH().SetPSN(psn.New(1))
	p.DETH().Set(qptest.DatagramQKey, 2)
	c.flow.Seal(p, 0)
	return p.Bytes()
}

func (c *countedDevice) sendRaw(datagrams ...[]byte) {
	to := hostport.Sockaddr(c.at.Addr(), int(c.at.Port()))
	for _, b := range datagrams {
		require.NoError(c.t, unix.Sendto(c.fd, b, 0, to))
	}
}

// waitCounted lets the device receive until its counters add up to the given number. It
// returns the counters.
func (c *countedDevice) waitCounted(datagrams uint64) counted {
	for range qptest.PollLimit {
		c.got += len(c.end.DrainCQ())
		got, sum := countsOf(c.t, c.dev), uint64(0)
		for _, n := range got {
			sum += n
		}
		if sum >= datagrams {
			c.got += len(c.end.DrainCQ())
			return got
		}
	}
	require.FailNow(c.t, "datagrams were not counted", "%v", countsOf(c.t, c.dev))
	return nil
}

// Every datagram that arrives increases exactly one counter.
func TestCountersOfASocket(t *testing.T) {
	c := newCountedDevice(t, 10)
	good, nobodys := c.packet(c.end.QP.Num()), c.packet(c.end.QP.Num()^0x800000)
	damaged, unknown, strange := c.packet(c.end.QP.Num()), c.packet(c.end.QP.Num()), c.packet(c.end.QP.Num())
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
	require.Equal(t, 3, c.got)
}

// shrinkBuffers minimizes the receive buffers of all sockets at the device's address, so
// that a few datagrams fill them.
func (c *countedDevice) shrinkBuffers() {
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(c.t, err)
	for _, f := range open {
		fd, err := strconv.Atoi(f.Name())
		require.NoError(c.t, err)
		if at, err := hostport.LocalAddr(fd); err == nil && at == c.at {
			require.NoError(c.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0))
		}
	}
}

// The device counts datagrams that the kernel drops at a full socket. The counters are
// kept when the socket and the device are closed.
func TestCountersAreKept(t *testing.T) {
	const sent = 1000
	c := newCountedDevice(t, sent)
	c.shrinkBuffers()
	for range sent {
		c.sendRaw(c.packet(c.end.QP.Num()))
	}
	got := c.waitCounted(sent)
	require.Positive(t, got["rcvd_overrun_err"])
	require.EqualValues(t, sent, got["rcvd_overrun_err"]+got["rcvd_pkts"])
	require.EqualValues(t, c.got, got["rcvd_pkts"])
	require.NoError(t, c.end.QP.Close())
	require.Equal(t, got, countsOf(t, c.dev))
	c.end.Close()
	require.NoError(t, c.dev.close())
	require.Equal(t, got, countsOf(t, c.dev))
}

// TestMemoryGauges checks that the gauges have the bytes of memory while it is mapped or
// registered. A segment between two shards of a device is mapped twice.
func TestMemoryGauges(t *testing.T) {
	gauges := func(d *device) counted {
		list, err := d.Counters(connmgr.PortNumber)
		require.NoError(t, err)
		got := counted{}
		for _, c := range list {
			if c.Gauge && c.Value > 0 {
				require.Equal(t, "bytes", c.Unit)
				got[c.Name] = c.Value
			}
		}
		return got
	}
	provider, err := Open(&Config{Path: PathLocal})
	require.NoError(t, err)
	d, page := provider.dev, uint64(os.Getpagesize())
	pd, err := d.AllocPD()
	require.NoError(t, err)
	private, err := pd.Alloc(&verbs.AllocAttr{Size: 1 << 16, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	shared, err := pd.Alloc(&verbs.AllocAttr{Size: 1 << 16, Access: verbs.AccessAll})
	require.NoError(t, err)
	registered, err := pd.Register(make([]byte, 1000), verbs.AccessLocalWrite)
	require.NoError(t, err)
	require.Equal(t, counted{"alloc_bytes": 2<<16 + page, "registered_bytes": 1000}, gauges(d), "the page describes the region to peers")
	for _, mr := range []verbs.MR{private, shared, registered} {
		require.NoError(t, mr.Close())
		require.NoError(t, mr.Close())
	}
	require.NoError(t, pd.Close())
	require.Empty(t, gauges(d))

	a, b := qptest.NewPair(t, d, verbs.ProgressManual)
	segments := gauges(d)["segment_bytes"]
	require.GreaterOrEqual(t, segments, uint64(2*d.cfg.RingBytes))
	require.Less(t, segments, uint64(16*d.cfg.RingBytes))
	a.Close()
	b.Close()
	require.NoError(t, provider.Close())
	require.Empty(t, gauges(d))
}
