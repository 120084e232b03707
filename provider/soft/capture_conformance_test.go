//go:build linux

package soft_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/pcapng"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/providertest"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestConformanceCaptured runs the conformance suite with a capture. Each packet must have the
// right ICRC. On the wire path the files must have all packets that the devices have counted,
// and tshark must understand all of them.
func TestConformanceCaptured(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  soft.Config
		one  bool // both ends are on one shard
		long bool // left out with -short
	}{
		{"local, one shard", soft.Config{Path: soft.PathLocal}, true, false},
		{"local, two shards", soft.Config{Path: soft.PathLocal, RingBytes: 16384, RingSlots: 32, PrivateRegions: true}, false, true},
		{"wire, two shards", soft.Config{Path: soft.PathWire}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skip("too long")
			}
			r := &recorded{cfg: c.cfg, dir: t.TempDir()}
			t.Run("suite", func(t *testing.T) {
				local := c.cfg.Path == soft.PathLocal
				r.cfg.WirePort = freeport.UDP(t)
				providertest.Run(t, r.open, providertest.Options{
					Addr: netip.MustParseAddr("127.0.0.1"), Credentials: local, RecvTime: !local, OneVector: c.one,
				})
			})
			r.check(t)
		})
	}
}

// recorded has the captures of a run of the suite.
type recorded struct {
	cfg     soft.Config
	dir     string
	devices []verbs.Device // device i has written file i
	all     []byte         // contents of all files; a file may have several sections
	packets int            // number of packets in all
	dropped uint64         // number of packets that the captures have dropped
}

func (r *recorded) file(i int) string { return filepath.Join(r.dir, fmt.Sprintf("%d.pcapng", i)) }

func (r *recorded) open(t *testing.T) cm.Provider {
	cfg := r.cfg
	cfg.Capture = &soft.Capture{File: r.file(len(r.devices)), Buffer: 8 << 20}
	p, err := soft.Open(&cfg)
	require.NoError(t, err)
	devices, err := p.Devices()
	require.NoError(t, err)
	r.devices = append(r.devices, devices[0])
	return p
}

func (r *recorded) check(t *testing.T) {
	port := uint16(wire.UDPPort) // on the local path
	if r.cfg.Path == soft.PathWire {
		port = r.cfg.WirePort
	}
	for i, device := range r.devices {
		b, err := os.ReadFile(r.file(i))
		require.NoError(t, err)
		f, err := pcapng.Read(b)
		require.NoError(t, err)
		for n, p := range f.Packets {
			require.NoError(t, p.CheckRoCE(port), "packet %d of device %d", n, i)
		}
		r.all, r.packets = append(r.all, b...), r.packets+len(f.Packets)
		counts := make(map[string]uint64)
		list, err := device.Counters(1)
		require.NoError(t, err)
		for _, c := range list {
			counts[c.Name] = c.Value
		}
		dropped := f.Stats["wire"].Dropped + f.Stats["local"].Dropped
		require.Equal(t, counts["capture_dropped"], dropped)
		r.dropped += dropped
		if r.cfg.Path != soft.PathWire {
			continue
		}
		var sent, received uint64
		for _, p := range f.Packets {
			if p.Outbound {
				sent++
			} else {
				received++
			}
		}
		arrived := counts["rcvd_pkts"] + counts["rcvd_no_qp_err"] + counts["cm_request_unread"]
		require.Equal(t, counts["sent_pkts"]+arrived, sent+received+dropped, i)
		if dropped == 0 {
			require.Equal(t, arrived, received, i)
		}
	}
	require.Greater(t, len(r.devices), 100)
	t.Logf("%d packets of %d devices, and %d that were dropped", r.packets, len(r.devices), r.dropped)
	require.Greater(t, uint64(r.packets), 100*r.dropped, "a writer that is much too slow")
	r.dissect(t, port)
}

// severityWarning is tshark's number of a warning; an error has a larger one. Notes do no harm:
// some free ports are those of traceroute.
const severityWarning = 0x600000

// dissect lets tshark decode all packets. It must find RoCEv2 in each, nothing malformed, and
// neither warnings nor errors.
func (r *recorded) dissect(t *testing.T, port uint16) {
	tool, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}
	file := filepath.Join(r.dir, "all.pcapng")
	require.NoError(t, os.WriteFile(file, r.all, 0o600))
	args := []string{"-n", "-r", file, "-o", fmt.Sprintf("infiniband.rroce.port:%d", port)}
	args = append(args, noGuesses(t, tool)...)
	args = append(args, "-T", "fields", "-E", "occurrence=a", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed", "-e", "_ws.expert.severity", "-e", "_ws.expert.message")
	var stderr bytes.Buffer
	cmd := exec.Command(tool, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	lines := 0
	for line := range strings.Lines(string(out)) {
		lines++
		values := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, values, 4)
		require.NotEmpty(t, values[0], "packet %d is not one of RoCEv2", lines)
		require.Empty(t, values[1], "packet %d", lines)
		for severity := range strings.FieldsFuncSeq(values[2], func(r rune) bool { return r == ',' }) {
			n, err := strconv.Atoi(severity)
			require.NoError(t, err)
			require.Less(t, n, severityWarning, "packet %d: %s", lines, values[3])
		}
	}
	require.Equal(t, r.packets, lines)
}

// noGuesses returns arguments with which tshark shows payloads as data. Otherwise it decodes
// some as protocols that it looks for in every connection, and others as those of Ethernet,
// because they begin like them.
func noGuesses(t *testing.T, tool string) (args []string) {
	for _, name := range []string{"rpcordma", "smc", "iser", "nvme-rdma", "smb_direct", "infiniband_sdp", "infiniband.eoib"} {
		args = append(args, "--disable-protocol", name)
	}
	out, err := exec.Command(tool, "-G", "decodes").Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "ethertype" {
			args = append(args, "-d", "ethertype=="+f[1]+",data")
		}
	}
	require.Greater(t, len(args), 100)
	return args
}
