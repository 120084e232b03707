package wire_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// expected adds to what a sample wants what all of them do.
func (s sample) expected(t *testing.T) map[string]string {
	icrc := s.packet().Bytes()
	icrc = icrc[len(icrc)-wire.ICRCSize:]
	all := map[string]string{
		"infiniband.bth.opcode":    fmt.Sprint(uint8(s.op)),
		"infiniband.bth.se":        "0",
		"infiniband.bth.m":         "0",
		"infiniband.bth.a":         "0",
		"infiniband.bth.tver":      "0",
		"infiniband.bth.padcnt":    fmt.Sprint((4 - len(s.data)%4) % 4),
		"infiniband.bth.p_key":     "65535",
		"infiniband.bth.destqp":    "0x123456",
		"infiniband.bth.psn":       fmt.Sprint(0xabcdef),
		"infiniband.invariant.crc": "0x" + hex.EncodeToString(icrc),
		"_ws.malformed":            "",
	}
	if s.ip6 {
		all["ipv6.plen"] = fmt.Sprint(8 + len(s.packet().Bytes()))
	} else {
		all["ip.checksum.status"] = "1" // good
	}
	for name, want := range s.want {
		_, known := all[name]
		require.True(t, known || s.want[name] != "", "%s: %s", s.name, name)
		all[name] = want
	}
	return all
}

func packetSamples() []sample {
	var samples []sample
	for _, e := range expectations {
		if wire.Opcode(e.code) == wire.CNP {
			continue // unknown to tshark
		}
		s := sample{name: e.name, op: wire.Opcode(e.code), data: "payload"[:e.length()], want: map[string]string{}}
		s.fill = func(p wire.Packet) { fillHeaders(p) }
		samples = append(samples, s)
	}
	return samples
}

func fillHeaders(p wire.Packet) {}

func messageSamples() []sample { return nil }

var _ = netip.Addr{}
