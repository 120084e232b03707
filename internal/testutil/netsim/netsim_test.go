package netsim_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
)

const packets = 1000

// run sends a numbered packet every microsecond and returns the numbers that arrive.
func run(seed uint64, cfg netsim.Config) (got []uint32, net *netsim.Net) {
	net = netsim.New(seed, cfg)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var data [4]byte
	for i := range uint32(packets) {
		binary.BigEndian.PutUint32(data[:], i)
		net.Send(int64(i)*1000, netsim.Packet{From: a, To: b, Data: data[:]})
	}
	for at, ok := net.Next(); ok; at, ok = net.Next() {
		p, ok := net.Receive(at - 1)
		if ok {
			panic("a packet arrived before its time")
		}
		if p, ok = net.Receive(at); !ok || p.From != a || p.To != b {
			panic("Receive does not return the packet that Next announced")
		}
		got = append(got, binary.BigEndian.Uint32(p.Data))
	}
	return got, net
}

func TestNoFaults(t *testing.T) {
	got, net := run(1, netsim.Config{Delay: time.Millisecond})
	require.Len(t, got, packets)
	for i, v := range got {
		require.EqualValues(t, i, v)
	}
	require.Equal(t, netsim.Stats{Sent: packets, Delivered: packets}, net.Stats)
}

// TestLimit checks that packets are dropped when too many are in flight.
func TestLimit(t *testing.T) {
	got, net := run(1, netsim.Config{Delay: time.Millisecond, Limit: 10})
	require.Len(t, got, 10, "all packets are sent before the first arrives")
	require.Equal(t, netsim.Stats{Sent: packets, Dropped: packets - 10, Delivered: 10}, net.Stats)
	net.Send(0, netsim.Packet{})
	require.Equal(t, packets-10, net.Stats.Dropped)
}

func TestSameSeedSameResult(t *testing.T) {
	cfg := netsim.Config{Drop: 0.1, Duplicate: 0.1, Corrupt: 0.1, Reorder: 0.1, Jitter: time.Millisecond}
	first, _ := run(7, cfg)
	second, _ := run(7, cfg)
	other, _ := run(8, cfg)
	require.Equal(t, first, second)
	require.NotEqual(t, first, other)
}

func TestEachFault(t *testing.T) {
	const often = packets / 4
	for _, c := range []struct {
		name  string
		cfg   netsim.Config
		count func(*netsim.Stats) int
		total func(hits int) int
	}{
		{"drop", netsim.Config{Drop: 0.5}, func(s *netsim.Stats) int { return s.Dropped }, func(n int) int { return packets - n }},
		{"duplicate", netsim.Config{Duplicate: 0.5, Jitter: time.Second}, func(s *netsim.Stats) int { return s.Duplicated }, func(n int) int { return packets + n }},
		{"corrupt", netsim.Config{Corrupt: 0.5}, func(s *netsim.Stats) int { return s.Corrupted }, func(int) int { return packets }},
		{"reorder", netsim.Config{Reorder: 0.5, Jitter: time.Second}, func(s *netsim.Stats) int { return s.Reordered }, func(int) int { return packets }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, net := run(3, c.cfg)
			hits := c.count(&net.Stats)
			require.Greater(t, hits, often)
			require.Len(t, got, c.total(hits))
			inOrder := 0
			for i, v := range got {
				if i < packets && v == uint32(i) {
					inOrder++
				}
			}
			require.Less(t, inOrder, packets-often, "too few packets were affected")
		})
	}
}
