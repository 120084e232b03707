package wire_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

func TestSealReproducesTheVectors(t *testing.T) {
	for _, v := range vectors {
		c := captured(t, v.name)
		want := c.decoded(t).ICRC()
		clear(c.packet[len(c.packet)-wire.ICRCSize:])

		c.flow().Seal(c.decoded(t), c.id)
		require.Equal(t, want, c.decoded(t).ICRC(), v.name)
	}
}

func TestVerifyFindsTheIdentificationOfTheVectors(t *testing.T) {
	for _, v := range vectors {
		c := captured(t, v.name)
		id, ok := c.flow().Verify(c.decoded(t))
		require.True(t, ok, v.name)
		require.Equal(t, c.id, id, v.name)
	}
	require.Equal(t, uint16(0x718c), captured(t, vectorCNP).id)
	require.Equal(t, uint16(7), captured(t, vectorSend).id)
}

// TestSealWithAnotherIdentification changes the identification of a network card's packet
// to 0.
func TestSealWithAnotherIdentification(t *testing.T) {
	c := captured(t, vectorCNP)
	c.flow().Seal(c.decoded(t), 0)
	require.Equal(t, unhex(t, "af515342"), c.packet[len(c.packet)-wire.ICRCSize:])
}

// TestICRCMasks checks that the ICRC depends on every byte of the BTH except the one that
// routers may change.
func TestICRCMasks(t *testing.T) {
	for _, name := range []string{vectorSend, vectorAck6} {
		c := captured(t, name)
		f := c.flow()
		p := c.decoded(t)
		want := p.ICRC()
		for i := range wire.BTHSize {
			c.packet[i] ^= 0xff
			changed := c.packet[i]
			f.Seal(p, c.id)
			require.Equal(t, i == 4, want == p.ICRC(), "%s: byte %d of the BTH", name, i)
			require.Equal(t, changed, c.packet[i])
			c.packet[i] ^= 0xff
		}
	}
}

func TestICRCCoversTheFlow(t *testing.T) {
	c := captured(t, vectorSend)
	other := netip.MustParseAddrPort("10.77.0.3:49444")
	swapped := func(a, p netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), p.Port()) }
	for name, flow := range map[string][2]netip.AddrPort{
		"source":           {swapped(other, c.src), c.dst},
		"destination":      {c.src, swapped(other, c.dst)},
		"source port":      {swapped(c.src, other), c.dst},
		"destination port": {c.src, swapped(c.dst, other)},
	} {
		var f wire.Flow
		f.Set(flow[0], flow[1])
		_, ok := f.Verify(c.decoded(t))
		require.False(t, ok, name)
	}
}

// TestFlowCanBeSetAgain reuses a Flow for addresses of different families.
func TestFlowCanBeSetAgain(t *testing.T) {
	var f wire.Flow
	for _, name := range []string{vectorAck6, vectorSend, vectorAck6, vectorREQ} {
		c := captured(t, name)
		f.Set(c.src, c.dst)
		id, ok := f.Verify(c.decoded(t))
		require.True(t, ok, name)
		require.Equal(t, c.id, id, name)
	}
}

// TestFlowRemembersOneLength seals packets of several lengths. A Flow stores the ICRC of
// its headers for one length only.
func TestFlowRemembersOneLength(t *testing.T) {
	f := captured(t, vectorSend).flow()
	b := make([]byte, wire.MaxPacket)
	for _, packet := range []struct {
		payload int
		id      uint16
	}{{64, 0}, {64, 0}, {64, 1}, {68, 1}, {64, 1}, {64, 0}} {
		p := wire.Build(b, wire.SendOnly, packet.payload)
		f.Seal(p, packet.id)
		id, ok := captured(t, vectorSend).flow().Verify(p)
		require.True(t, ok, "%+v", packet)
		require.Equal(t, packet.id, id, "%+v", packet)
	}
}

// TestVerifyFindsEveryIdentification checks that Verify finds identifications that the
// Flow did not predict.
func TestVerifyFindsEveryIdentification(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	sender, receiver := captured(t, vectorSend).flow(), captured(t, vectorSend).flow()
	p := wire.Build(make([]byte, wire.MaxPacket), wire.SendOnly, 64)
	id := uint16(0xfff0)
	for i := range 10_000 {
		switch i / 100 % 4 {
		case 0: // The identification does not change.
		case 1:
			id++
		// The identification changes by 0 to 4.
		case 2:
			id += uint16(i) % 5
		case 3:
			id = uint16(random.Uint32())
		}
		sender.Seal(p, id)
		got, ok := receiver.Verify(p)
		require.True(t, ok)
		require.Equal(t, id, got)
	}
}

func TestFlowAcceptsMappedAddresses(t *testing.T) {
	c := captured(t, vectorSend)
	var f wire.Flow
	f.Set(netip.AddrPortFrom(netip.AddrFrom16(c.src.Addr().As16()), c.src.Port()), c.dst)
	_, ok := f.Verify(c.decoded(t))
	require.True(t, ok)
}

// TestVerifyEveryLength checks that Verify finds the identification in packets of all
// lengths.
func TestVerifyEveryLength(t *testing.T) {
	f := captured(t, vectorSend).flow()
	b := make([]byte, wire.MaxPacket)
	for payload := 0; payload <= wire.MaxPayload; payload += 4 {
		p := wire.Build(b, wire.WriteOnlyImm, payload)
		id := uint16(payload * 7)
		f.Seal(p, id)
		got, ok := f.Verify(p)
		require.True(t, ok, "payload of %d bytes", payload)
		require.Equal(t, id, got, "payload of %d bytes", payload)
	}
}

// TestVerifyFindsDamage checks that Verify accepts at most one of 1<<16 damaged packets.
func TestVerifyFindsDamage(t *testing.T) {
	const rounds = 1 << 18
	random := rand.New(rand.NewPCG(1, 2))
	c := captured(t, vectorREQ)
	f, p := c.flow(), c.decoded(t)
	passed := 0
	for range rounds {
		old := *(*[8]byte)(c.packet[40:])
		for i := range old {
			c.packet[40+i] = byte(random.Uint32())
		}
		if _, ok := f.Verify(p); ok {
			passed++
		}
		copy(c.packet[40:], old[:])
	}
	require.Less(t, passed, 4*rounds>>16)
	_, ok := f.Verify(p)
	require.True(t, ok, "the packet has been restored")
}

func TestVerifyIPv6FindsEveryBit(t *testing.T) {
	c := captured(t, vectorAck6)
	f, p := c.flow(), c.decoded(t)
	for bit := range 8 * len(c.packet) {
		c.packet[bit/8] ^= 1 << (bit % 8)
		_, ok := f.Verify(p)
		require.Equal(t, bit/8 == 4, ok, "bit %d", bit)
		c.packet[bit/8] ^= 1 << (bit % 8)
	}
}

func TestNoAllocations(t *testing.T) {
	var flow wire.Flow
	src, dst := netip.MustParseAddrPort("10.77.0.1:49443"), netip.MustParseAddrPort("10.77.0.2:4791")
	b := make([]byte, wire.MaxPacket)
	whole := 0
	allocs := testing.AllocsPerRun(1000, func() {
		flow.Set(src, dst)
		p := wire.Build(b, wire.WriteOnlyImm, 61)
		p.BTH().SetDestQP(0x123)
		p.BTH().SetPSN(0xabcdef)
		p.RETH().Set(1, 2, 61)
		p.ImmDt().Set(3)
		flow.Seal(p, 5)
		p, err := wire.Decode(p.Bytes())
		if id, ok := flow.Verify(p); ok && err == nil && id == 5 {
			whole++
		}
		if _, err := wire.Decode(b[:16]); err != nil {
			whole++
		}
	})
	require.Zero(t, allocs)
	require.Equal(t, 2*1001, whole)
}

func BenchmarkICRC(b *testing.B) {
	c := captured(b, vectorSend)
	f := c.flow()
	for _, size := range []int{64, wire.MaxPayload} {
		p := wire.Build(make([]byte, wire.MaxPacket), wire.SendOnly, size)
		b.Run(fmt.Sprintf("Seal%d", size), func(b *testing.B) {
			for b.Loop() {
				f.Seal(p, 7)
			}
		})
		b.Run(fmt.Sprintf("Verify%d", size), func(b *testing.B) {
			for b.Loop() {
				f.Verify(p)
			}
		})
	}
}
