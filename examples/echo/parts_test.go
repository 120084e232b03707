package main

import (
	"net/netip"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider"
)

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "3": {3}, "0,2-4": {0, 2, 3, 4}} {
		got, err := parseCPUs(list)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, list := range []string{",", "-", "a", "1-", "4-2", "99999999"} {
		_, err := parseCPUs(list)
		require.ErrorContains(t, err, "-cpus", list)
	}
}

// TestServerFlags checks that serverFlags passes the settings on unchanged.
func TestServerFlags(t *testing.T) {
	cpus := []int{3, 0, 2}
	server, err := parse((&options{mode: "busy", inflight: 9, loops: 2, cpus: cpus, reject: "a b"}).serverFlags(), t.Output())
	require.NoError(t, err)
	require.Equal(t, cpus, server.cpus)
	require.Equal(t, "busy", server.mode)
	require.Equal(t, 9, server.inflight)
	require.Equal(t, "a b", server.reject)
	require.True(t, server.untilEOF)
}

func TestPlacement(t *testing.T) {
	client, server := (&options{loops: 1, cpus: []int{4, 6}}).placement()
	require.Equal(t, []int{4}, client)
	require.Equal(t, []int{6}, server)

	client, server = (&options{loops: 2, cpus: []int{1, 2, 3}}).placement()
	require.Equal(t, []int{1, 2}, client)
	require.Equal(t, []int{3, 1}, server)

	client, server = (&options{loops: 1, mode: "adaptive"}).placement()
	require.Nil(t, client)
	require.Nil(t, server)
}

func TestProcessorWarning(t *testing.T) {
	for _, test := range []struct {
		opts options
		warn bool
	}{
		{options{mode: "busy", loops: 1, cpus: []int{0, 1}}, false},
		{options{mode: "busy", loops: 1, cpus: []int{1, 1}}, true},
		{options{mode: "busy", loops: 2, cpus: []int{0, 1, 2}}, true},
		{options{mode: "busy", loops: 2, cpus: []int{0, 1}, connect: ":1"}, false},
		{options{mode: "busy", loops: 3, cpus: []int{0, 1}, listen: ":1"}, true},
		{options{mode: "busy", loops: 3, cpus: []int{0, 1}, listen: ":1", untilEOF: true}, false},
		{options{mode: "adaptive", loops: 3, cpus: []int{0, 1}}, false},
	} {
		require.Equal(t, test.warn, test.opts.processorWarning() != "", "%+v", test.opts)
	}
}

func TestResolve(t *testing.T) {
	nobody := netip.IPv4Unspecified()
	for hostPort, want := range map[string]string{
		"127.0.0.1:7471": "127.0.0.1:7471",
		"[::1]:7471":     "[::1]:7471",
		":7471":          "0.0.0.0:7471",
		":0":             "0.0.0.0:0",
	} {
		addr, err := resolve("listen", hostPort, nobody)
		require.NoError(t, err)
		require.Equal(t, want, addr.String())
	}
	addr, err := resolve("connect", "localhost:7471", nobody)
	require.NoError(t, err)
	require.True(t, addr.Addr().IsLoopback())
	for _, bad := range []string{"7471", "localhost", "127.0.0.1:-1", "127.0.0.1:65536"} {
		_, err := resolve("listen", bad, nobody)
		require.ErrorContains(t, err, "-listen")
	}
}

func TestPathOf(t *testing.T) {
	here, there := netip.MustParseAddr("::1"), netip.MustParseAddr("192.0.2.1")
	require.Equal(t, "local", pathOf("soft", "auto", here))
	require.Equal(t, "wire", pathOf("soft", "auto", there))
	require.Equal(t, "local", pathOf("soft", "local", there))
	require.Equal(t, "wire", pathOf("soft", "wire", here))
	require.Equal(t, "device", pathOf("rdmacore", "auto", here))
}

// TestCounters checks that the table shows the error counters that have grown.
func TestCounters(t *testing.T) {
	before := deviceCounters{"sent_pkts": 7, "send_err": 2}
	after := deviceCounters{"sent_pkts": 9, "send_err": 2, "rcvd_pkts": 3}
	require.Equal(t, deviceCounters{"sent_pkts": 2, "rcvd_pkts": 3}, after.since(before))
	r := &report{Counters: after.since(before)}
	require.Empty(t, r.table())
	r.Counters = deviceCounters{"sent_pkts": 1, "rx_icrc_encapsulated": 1, "completer_retry_err": 3, "RxDiscards": 4}
	require.Equal(t, "\ndevice: RxDiscards 4, completer_retry_err 3, rx_icrc_encapsulated 1\n", r.table())

	p, err := provider.Open("soft", nil)
	require.NoError(t, err)
	defer p.Close()
	require.Empty(t, readCounters(p), "a new device has counted nothing")
}

// TestFill checks that messages with different numbers differ. In a long message, the
// first words must differ too.
func TestFill(t *testing.T) {
	for _, size := range []int{2, 8, 13, 64} {
		seen := map[string]bool{}
		for number := range uint64(1000) {
			msg := make([]byte, size)
			fill(msg, number)
			require.False(t, seen[string(msg)], "size %d, number %d", size, number)
			seen[string(msg)] = true
			if size > 16 {
				require.NotEqual(t, msg[:8], msg[8:16])
			}
		}
	}
}

func TestChart(t *testing.T) {
	times := hdrhistogram.New(1, 1e9, 3)
	require.Empty(t, chart(times), "no results")
	require.NoError(t, times.RecordValues(1000, 5))
	require.Contains(t, chart(times), "100.000%")
	require.NoError(t, times.RecordValues(4000, 2000))
	require.NoError(t, times.RecordValues(900_000, 1))
	lines := chart(times)
	require.Contains(t, lines, "from    1.00 µs   0.249%")
	require.Contains(t, lines, " 0.050% #\n", "times above the 99.9th percentile have a row")
}

// TestSessionCounts checks that a session counts wrong and missing echoes.
func TestSessionCounts(t *testing.T) {
	r, done := newLoopResult(), make(chan struct{}, 1)
	s := newSession(&options{size: 16}, r, done)
	s.phase, s.sent = stream, 3

	right := make([]byte, 16)
	fill(right, 0)
	s.checkEcho(right)
	require.Zero(t, r.damaged)

	// The echo of message 0 arrives a second time.
	s.checkEcho(right)
	require.Equal(t, 1, r.damaged)
	s.checkEcho(nil) // too short
	require.Equal(t, 2, r.damaged)
	require.Len(t, done, 1, "the phase ends when all echoes have arrived")

	fill(right, 3)
	s.checkEcho(right) // an echo of message 3, which was not sent
	require.Equal(t, 3, r.damaged)

	s.sent += 5
	s.onClose(nil)
	require.Equal(t, 5, r.lost)
	require.Len(t, done, 1, "a session reports the end of a phase once")
}
