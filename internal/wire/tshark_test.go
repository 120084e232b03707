package wire_test

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A sample is a packet and what tshark must find in it. The keys of want are tshark's
// names of the fields.
type sample struct {
	name string
	ip6  bool
	op   wire.Opcode
	data string // payload
	fill func(wire.Packet)
	want map[string]string
}

// TestTshark compares each kind of packet with the result of tshark, an independent
// decoder. tshark checks the IPv4 checksum, but not the ICRC.
func TestTshark(t *testing.T) {
	tool, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: apt-get install tshark")
	}

	samples := slices.Concat(packetSamples(), messageSamples())
	requireAllKinds(t, samples)
	seen := dissect(t, tool, samples)
	require.Len(t, seen, len(samples))
	for i, s := range samples {
		for name, want := range s.expected() {
			require.Equal(t, want, seen[i][name], "%s: %s", s.name, name)
		}
	}
}

func requireAllKinds(t *testing.T, samples []sample) {
	for _, e := range expectations {
		has := slices.ContainsFunc(samples, func(s sample) bool { return s.op == wire.Opcode(e.code) })
		require.True(t, has || wire.Opcode(e.code) == wire.CNP, "no sample of %s", e.name)
	}
}

// dissect runs tshark. It returns the values of the fields for each sample.
func dissect(t *testing.T, tool string, samples []sample) []map[string]string {
	names := fieldNames(samples)
	file := filepath.Join(t.TempDir(), "samples.pcap")
	require.NoError(t, os.WriteFile(file, pcap(samples), 0o600))
	args := []string{"-n", "-r", file, "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f", "-o", "ip.check_checksum:TRUE"}
	// These dissectors would decode the payload as another protocol.
	for _, guess := range []string{"rpcordma", "smc", "iser", "nvme-rdma", "smb_direct", "infiniband_sdp"} {
		args = append(args, "--disable-protocol", guess)
	}
	for _, name := range names {
		args = append(args, "-e", name)
	}
	out, err := exec.Command(tool, args...).Output()
	require.NoError(t, err)
	var all []map[string]string
	for line := range strings.Lines(string(out)) {
		values := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, values, len(names))
		fields := map[string]string{}
		for i, name := range names {
			fields[name] = values[i]
		}
		all = append(all, fields)
	}
	return all
}

func fieldNames(samples []sample) []string {
	all := map[string]string{}
	for _, s := range samples {
		maps.Copy(all, s.expected())
	}
	return slices.Sorted(maps.Keys(all))
}

// pcap returns a capture file of raw IP packets.
func pcap(samples []sample) []byte {
	const linkTypeRaw = 101
	b := binary.BigEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = binary.BigEndian.AppendUint16(b, 2)
	b = binary.BigEndian.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...) // time zone and accuracy: 0
	b = binary.BigEndian.AppendUint32(b, 65535)
	b = binary.BigEndian.AppendUint32(b, linkTypeRaw)
	for i, s := range samples {
		datagram := s.datagram()
		b = binary.BigEndian.AppendUint32(b, uint32(i)) // time stamp in seconds
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(len(datagram)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(datagram)))
		b = append(b, datagram...)
	}
	return b
}

func (s sample) endpoints() (src, dst netip.AddrPort) {
	if s.ip6 {
		return netip.MustParseAddrPort("[fd00::1]:49443"), netip.MustParseAddrPort("[fd00::2]:4791")
	}
	return netip.MustParseAddrPort("10.77.0.1:49443"), netip.MustParseAddrPort("10.77.0.2:4791")
}

func (s sample) packet() wire.Packet {
	p := wire.Build(make([]byte, wire.MaxPacket), s.op, len(s.data))
	p.BTH().SetDestQP(0x123456)
	p.BTH().SetPSN(0xabcdef)
	copy(p.Payload(), s.data)
	if s.fill != nil {
		s.fill(p)
	}
	var f wire.Flow
	f.Set(s.endpoints())
	f.Seal(p, 0)
	return p
}

// datagram returns the sample's packet with IP and UDP headers.
func (s sample) datagram() []byte {
	src, dst := s.endpoints()
	p := s.packet().Bytes()
	var grh wire.GRH
	grh.Set(src.Addr(), dst.Addr(), len(p), 0, 64)
	b := grh[:]
	if !s.ip6 {
		b = grh[20:]
	}
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(p)))
	b = binary.BigEndian.AppendUint16(b, 0)
	return append(b, p...)
}
