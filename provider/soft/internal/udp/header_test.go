//go:build linux

package udp

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// Each packet has the traffic class and the hop limit of its route.
func TestSendTrafficClassAndHopLimit(t *testing.T) {
	for addr, option := range map[string]struct{ level, recvClass, recvHops, class, hops int }{
		"127.9.0.1": {unix.IPPROTO_IP, unix.IP_RECVTOS, unix.IP_RECVTTL, unix.IP_TOS, unix.IP_TTL},
		"::1":       {unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, unix.IPV6_RECVHOPLIMIT, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT},
	} {
		r := oneSocket(t, addr)
		for _, o := range []int{option.recvClass, option.recvHops} {
			require.NoError(t, unix.SetsockoptInt(r.recv.fd, option.level, o, 1))
		}
		for _, want := range []destHeader{{}, {trafficClass: 0x68}, {hopLimit: 3}, {trafficClass: 0x20, hopLimit: 9}, {hopLimit: DefaultHopLimit}} {
			for _, packets := range []int{1, 5, -1, -5} {
				r.to.header.trafficClass, r.to.header.hopLimit = want.trafficClass, want.hopLimit
				if packets < 0 {
					packets = -packets
					require.NoError(t, r.to.connect())
					require.NotNil(t, r.to.socket)
				}
				for range packets {
					r.queue(64)
				}
				r.flush()
				for range packets {
					class, hops := r.header(option.class, option.hops)
					require.Equal(t, want.trafficClass, class, "%s", addr)
					if want.hopLimit == 0 {
						// 0 means the default of the system. The test takes the default
						// from the first packet.
						want.hopLimit = hops
					}
					require.Equal(t, want.hopLimit, hops, "%s", addr)
				}
				r.to.disconnect()
			}
		}
	}
}

// header receives a packet, and returns its traffic class and hop limit.
func (r *rig) header(classType, hopsType int) (class, hops uint8) {
	r.t.Helper()
	oob := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(r.recv.fd, make([]byte, 256), oob, unix.MSG_DONTWAIT)
	require.NoError(r.t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	require.NoError(r.t, err)
	for _, m := range messages {
		// The value of IP_TOS has one byte. The other values have four bytes.
		value := m.Data[0]
		if len(m.Data) >= 4 {
			value = uint8(binary.NativeEndian.Uint32(m.Data))
		}
		switch int(m.Header.Type) {
		case classType:
			class = value
		case hopsType:
			hops = value
		}
	}
	return class, hops
}

// After receiveHeaders, a receiver reports the header fields of each packet. Before, it
// reports defaults.
func TestReceiveHeaders(t *testing.T) {
	for i, addr := range []string{"127.9.0.1", "::1", "127.9.0.1", "::1"} {
		r := oneSocket(t, addr)
		if i >= 2 {
			r.merge()
		}
		r.to.header.trafficClass, r.to.header.hopLimit = 0x68, 3
		for _, want := range []Header{{HopLimit: DefaultHopLimit}, {TrafficClass: 0x68, HopLimit: 3}} {
			for _, packets := range []int{1, 5} {
				for range packets {
					r.queue(64)
				}
				r.flush()
				var got headers
				for r.recv.receive(&got) > 0 {
				}
				require.Len(t, got, packets)
				for _, h := range got {
					require.Equal(t, want, h, "%s", addr)
				}
			}
			r.recv.receiveHeaders()
		}
		r.to.header.trafficClass, r.to.header.hopLimit = 0, 9
		var got headers
		r.queue(1)
		r.flush()
		require.Equal(t, 1, r.recv.receive(&got))
		require.Equal(t, headers{{HopLimit: 9}}, got, "the fields of the last packet are gone")
		require.Zero(t, testing.AllocsPerRun(10, func() {
			r.queue(1)
			r.flush()
			r.recv.receive(discard{})
		}))
	}
}

// headers is a Sink that keeps the IP headers of packets.
type headers []Header

func (h *headers) Receive(_ wire.Packet, from *Header) bool {
	*h = append(*h, Header{TrafficClass: from.TrafficClass, HopLimit: from.HopLimit})
	return true
}

// discard is a Sink that accepts no packet.
type discard struct{}

func (discard) Receive(wire.Packet, *Header) bool { return false }
