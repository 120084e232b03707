//go:build linux

package udp

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

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

// After report, a receiver reports the header fields of each packet. Before, it
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
			r.recv.report(reportHeaders)
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

// After report, each packet has the time at which the kernel has received it: packets that
// are read alone, in a batch, or merged. Before, there are no times. If the kernel reports no
// time, the packet does not get that of an earlier one.
func TestReceiveTimes(t *testing.T) {
	for i, addr := range []string{"127.9.0.1", "::1", "127.9.0.1", "::1"} {
		r := oneSocket(t, addr)
		merged := i >= 2
		if merged {
			r.merge()
		}
		r.queue(64)
		r.flush()
		require.Equal(t, []int64{0}, r.times())
		r.recv.report(reportTimes)
		r.awaitTimes()
		for _, packets := range []int{1, 5, 1} {
			before := time.Now().UnixNano()
			for range packets {
				r.queue(64)
			}
			r.flush()
			arrived := time.Now().UnixNano()
			times := r.times()
			require.Len(t, times, packets)
			require.True(t, slices.IsSorted(times))
			require.GreaterOrEqual(t, times[0], before)
			require.LessOrEqual(t, times[len(times)-1], arrived, "the packets were read later")
			if merged {
				require.Equal(t, times[0], times[len(times)-1], "the kernel has merged the packets")
			}
		}
		require.Zero(t, testing.AllocsPerRun(10, func() {
			r.queue(1)
			r.flush()
			r.recv.receive(discard{})
		}))
		require.NoError(t, unix.SetsockoptInt(r.recv.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 0))
		r.queue(64)
		r.flush()
		require.Equal(t, []int64{0}, r.times())
	}
}

// awaitTimes sends packets until the kernel reports when they arrive. After the first socket
// has asked for times, it may report for some milliseconds when they are read.
func (r *rig) awaitTimes() {
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); {
		r.queue(64)
		r.flush()
		arrived := time.Now().UnixNano()
		if r.times()[0] < arrived {
			return
		}
	}
	require.FailNow(r.t, "the kernel reports no times of arrival")
}

// times receives all packets, and returns their times.
func (r *rig) times() []int64 {
	var got headerTimes
	for r.recv.receive(&got) > 0 {
	}
	return got
}

type headerTimes []int64

func (h *headerTimes) Receive(_ wire.Packet, from *Header) bool {
	*h = append(*h, from.Time)
	return true
}

// Control messages with a wrong length or type give no time.
func TestWrongTimes(t *testing.T) {
	b := newBatch(1, 1)
	b.wantsControl = true
	size := binary.Size(unix.Timespec{})
	for _, message := range []struct {
		level, option int32
		size          int
		want          int64
	}{
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, size, 7e9},
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 4, 0},
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 0, 0},
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, -1, 0},
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, -unix.SizeofCmsghdr, 0},
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1 << 20, 0},
		{unix.SOL_SOCKET, unix.SCM_TIMESTAMP, size, 0},
		{unix.IPPROTO_IPV6, unix.SCM_TIMESTAMPNS, size, 0},
	} {
		b.control[0] = cmsgs{}
		seconds := b.control[0].next(message.level, message.option, message.size)
		if len(seconds) == 8 {
			binary.NativeEndian.PutUint64(seconds, 7)
		} else {
			binary.NativeEndian.PutUint32(seconds, 7)
		}
		b.prepareReceive(0)
		require.Equal(t, controlFields{hops: DefaultHopLimit, time: message.want}, b.fields(0), "%+v", message)
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
