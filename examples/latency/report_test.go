package latency

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestPathTo(t *testing.T) {
	here, there := netip.MustParseAddr("::1"), netip.MustParseAddr("192.0.2.1")
	require.Equal(t, "local", PathTo(here, "soft", soft.PathAuto))
	require.Equal(t, "wire", PathTo(there, "soft", soft.PathAuto))
	require.Equal(t, "local", PathTo(there, "soft", soft.PathLocal))
	require.Equal(t, "wire", PathTo(here, "soft", soft.PathWire))
	require.Equal(t, "device", PathTo(here, "rdmacore", soft.PathAuto))
}

// TestCounters checks that the table shows the error counters that have grown.
func TestCounters(t *testing.T) {
	before := Counters{"sent_pkts": 7, "send_err": 2}
	after := Counters{"sent_pkts": 9, "send_err": 2, "rcvd_pkts": 3}
	require.Equal(t, Counters{"sent_pkts": 2, "rcvd_pkts": 3}, after.Since(before))
	r := &Report{Counters: after.Since(before)}
	require.Empty(t, r.Table())
	r.Counters = Counters{"sent_pkts": 1, "rx_icrc_encapsulated": 1, "completer_retry_err": 3, "RxDiscards": 4}
	require.Equal(t, "\ndevice: RxDiscards 4, completer_retry_err 3, rx_icrc_encapsulated 1\n", r.Table())

	p, err := provider.Open("soft", nil)
	require.NoError(t, err)
	defer p.Close()
	require.Empty(t, ReadCounters(p).Since(Counters{}), "a new device has counted nothing")
}

// TestPrintServed checks that errors go to the standard error, and the device and reachable
// addresses to the standard output.
func TestPrintServed(t *testing.T) {
	var stdout, stderr bytes.Buffer
	at, all := netip.MustParseAddrPort("10.0.0.1:7471"), netip.MustParseAddrPort("[::]:7471")
	p, err := provider.Open("soft", nil)
	require.NoError(t, err)
	defer p.Close()
	PrintServed("echo", p, []cm.ServedAddr{{Path: "local", Addr: at}, {Path: "wire", Addr: at, Err: cm.ErrAddrInUse}}, &stdout, &stderr)
	require.Equal(t, "uses soft0, the device in software\nreached by the local path at 10.0.0.1:7471\n", stdout.String())
	require.Equal(t, "echo: not reached by the wire path at 10.0.0.1:7471: address in use\n", stderr.String())

	stdout.Reset()
	two := cards{{name: "card0", gid: verbs.GID{}}, {name: "card1", gid: verbs.GIDFromAddr(at.Addr())}}
	PrintServed("echo", two, []cm.ServedAddr{{Addr: at}}, &stdout, &stderr)
	require.Equal(t, "uses card1, an RDMA device of the kernel\nreached by the device at 10.0.0.1:7471\n", stdout.String())
	require.Equal(t, []string{"card0", "card1"}, devicesOf(two, []cm.ServedAddr{{Addr: all}}))
}

// cards is a provider of network cards. PrintServed needs only their names and addresses.
type cards []card

func (cards) Name() string                              { return "rdmacore" }
func (cards) Close() error                              { return nil }
func (cards) OpenChannel() (cm.TransportChannel, error) { return nil, verbs.ErrNotSupported }

func (c cards) Devices() (list []verbs.Device, err error) {
	for _, dev := range c {
		list = append(list, dev)
	}
	return list, nil
}

// A card has two ports, of which the second one has an address.
type card struct {
	verbs.Device
	name string
	gid  verbs.GID
}

func (c card) Name() string           { return c.name }
func (c card) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{NumPorts: 2} }

func (c card) Port(num uint8) (attr verbs.PortAttr, err error) {
	if num == 2 {
		attr.GIDs = []verbs.GID{c.gid}
	}
	return attr, nil
}

func TestNoTerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	require.False(t, IsTerminal(file))
	require.False(t, IsTerminal(&strings.Builder{}))
	ShowProgress(file, "nothing", -1, func() uint64 { panic("no terminal") })()
}

// TestProgress shows a bar on /dev/null, which counts as a terminal.
func TestProgress(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	counted := make(chan struct{}, 2)
	stop := ShowProgress(null, "work", 10, func() uint64 {
		select {
		case counted <- struct{}{}:
		default:
		}
		return 5
	})
	<-counted // at the start
	<-counted // at an update
	stop()
}
