package reactor_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// longConfig returns a Config with long messages of up to 4 MiB.
func longConfig() *reactor.Config { return &reactor.Config{MaxLongMessage: 4 << 20} }

// onEachPath runs the test on the local path and on the wire path. The function connect
// connects two loops on this path.
func onEachPath(t *testing.T, test func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair)) {
	t.Run("local", func(t *testing.T) {
		test(t, func(client, server *hooks, cfg *reactor.Config) *pair { return connect(t, client, server, cfg) })
	})
	t.Run("wire", func(t *testing.T) {
		test(t, func(client, server *hooks, cfg *reactor.Config) *pair { return connectWire(t, client, server, cfg) })
	})
}

// connectWire is the function connect for the wire path.
func connectWire(t testing.TB, client, server *hooks, cfg *reactor.Config) *pair {
	t.Helper()
	port := freeport.UDP(t)
	p := &pair{localAddr: netip.MustParseAddrPort("127.0.0.2:0")}
	watch(client, &p.dialed, &p.dialCloseErr, &p.dialCloses)
	watch(server, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
	client.dialError = func(_ *reactor.DialOptions, err error) { t.Errorf("dial: %v", err) }
	p.server, p.client = wireLoop(t, server, port, cfg), wireLoop(t, client, port, cfg)
	ln, err := p.server.Engine().Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	require.NoError(t, p.client.Engine().Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: p.localAddr}))
	p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
	return p
}

// randomBytes returns n bytes that depend on the seed.
func randomBytes(n int, seed uint64) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// TestLongMessages sends messages of many sizes in both directions, with Send,
// SendBuffer and SendV. It checks their bytes, order, immediate data and completions.
func TestLongMessages(t *testing.T) {
	onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		type message struct {
			data string
			imm  uint32
			has  bool
		}
		var got, echoed []message
		var tags []uint64
		record := func(to *[]message) func(*reactor.Conn, reactor.Message) {
			return func(_ *reactor.Conn, m reactor.Message) {
				imm, has := m.Imm()
				*to = append(*to, message{string(m.Data()), imm, has})
			}
		}
		server := &hooks{}
		recordGot := record(&got)
		server.message = func(c *reactor.Conn, m reactor.Message) {
			recordGot(c, m)
			if err := c.SendBuffer(m.Keep(), nil); err != nil {
				t.Errorf("send back: %v", err)
			}
		}
		p := connect(&hooks{message: record(&echoed), completion: func(_ *reactor.Conn, op reactor.Op, err error) {
			if err != nil {
				t.Errorf("operation %d: %v", op.Tag, err)
			}
			tags = append(tags, op.Tag)
		}}, server, longConfig())
		var want []message
		region := alloc(t, p.dialed, 4<<20, verbs.AccessRemoteRead|verbs.AccessLocalWrite)
		for i, n := range []int{1, 4096, 4097, 10, 8192, 100_000, 256 << 10, 256<<10 + 1, 0, 1 << 20, 3<<20 + 7, 4 << 20, 5} {
			m := message{data: string(randomBytes(n, uint64(i))), imm: uint32(i), has: i%3 == 0}
			o := reactor.OpOptions{HasImm: m.has, Tag: uint64(i)}
			if m.has {
				o.Imm = m.imm
			} else {
				m.imm = 0
			}
			want = append(want, m)
			require.NoError(t, sendInWay(t, p.dialed, i%3, m.data, region, o), "message %d of %d bytes", i, n)
			p.drive(t, func() bool { return len(echoed) == len(want) && len(tags) == len(want) })
		}
		for i := range want {
			require.Equal(t, want[i], got[i], "message %d", i)
			require.Equal(t, want[i].data, echoed[i].data, "message %d", i)
			require.Contains(t, tags, uint64(i))
		}
		require.Zero(t, p.dialed.Stats().InFlight)
		stats := p.dialed.Stats()
		require.Equal(t, stats.Accepted, stats.Confirmed)
		require.NoError(t, p.dialed.Close())
		p.closed(t)
		require.NoError(t, p.dialCloseErr)
		require.ErrorIs(t, p.acceptCloseErr, reactor.ErrPeerClosed)
	})
}

// sendInWay sends data in one of three ways: with Send, SendBuffer or SendV. For
// SendV it copies data to the region.
func sendInWay(t *testing.T, c *reactor.Conn, way int, data string, region *reactor.Region, o reactor.OpOptions) error {
	n := len(data)
	switch way {
	case 0:
		o.Notify = true
		return c.Send([]byte(data), &o)
	case 1:
		b, err := c.Lease(n)
		require.NoError(t, err)
		require.NoError(t, b.SetLen(copy(b.Bytes()[:n], data)))
		o.Notify = true
		return c.SendBuffer(b, &o)
	}
	copy(region.Bytes(), data)
	half := n / 2
	return c.SendV(&o, reactor.Piece{Region: region, Length: half}, reactor.Piece{Region: region, Offset: half, Length: n - half})
}

// TestLongMessagesKeepOrder sends long and short messages without waiting, until the send
// queue is full, and checks their order.
func TestLongMessagesKeepOrder(t *testing.T) {
	onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		const messages = 300
		sent, received := 0, 0
		var fill func(c *reactor.Conn)
		size := func(i int) int { return []int{8, 5000, 64, 3000, 70_000, 1, 300_000}[i%7] }
		fill = func(c *reactor.Conn) {
			for ; sent < messages; sent++ {
				err := c.Send(bytes.Repeat([]byte{byte(sent)}, size(sent)), nil)
				if err == reactor.ErrWouldBlock {
					return
				}
				require.NoError(t, err)
			}
		}
		p := connect(&hooks{writable: fill}, &hooks{message: func(_ *reactor.Conn, m reactor.Message) {
			if len(m.Data()) != size(received) || m.Data()[0] != byte(received) || m.Data()[len(m.Data())-1] != byte(received) {
				t.Errorf("message %d is wrong", received)
			}
			received++
		}}, longConfig())
		fill(p.dialed)
		require.Less(t, sent, messages)
		p.drive(t, func() bool { return received == messages })
		require.NoError(t, p.dialed.Close())
		p.closed(t)
		require.NoError(t, p.dialCloseErr)
		for _, l := range []*reactor.Loop{p.client, p.server} {
			require.Zero(t, reactor.LongBytes(l))
		}
	})
}

// TestLongMessagesDoNotAllocate checks that a stream of long messages allocates nothing.
func TestLongMessagesDoNotAllocate(t *testing.T) {
	for _, way := range []string{"region", "buffer", "copy"} {
		t.Run(way, func(t *testing.T) {
			onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
				const size = 3 << 20
				received, completed := 0, 0
				p := connect(&hooks{completion: func(*reactor.Conn, reactor.Op, error) { completed++ }},
					&hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}, longConfig())
				region := alloc(t, p.dialed, size, verbs.AccessRemoteRead)
				send := longSender(p.dialed, way, region)
				one := func() {
					if err := send(); err != nil {
						t.Error(err)
					}
					for want := received + 1; received < want || completed < want; {
						_, _ = p.client.RunOnce(0)
						_, _ = p.server.RunOnce(0)
					}
				}
				// On a busy machine the device of the wire path may open sockets in one of the
				// measurements. What a message allocates is in all of them.
				least := math.Inf(1)
				for range 5 {
					if least = min(least, testing.AllocsPerRun(20, one)); least == 0 {
						break
					}
				}
				require.Zero(t, least)
			})
		})
	}
}

// longSender returns a function that sends a message as long as the region. The parameter
// way is "region", "copy" or "buffer".
func longSender(c *reactor.Conn, way string, region *reactor.Region) func() error {
	data, size := region.Bytes(), len(region.Bytes())
	pieces := []reactor.Piece{{Region: region, Length: size}}
	return func() error {
		switch way {
		case "region":
			return c.SendV(nil, pieces...)
		case "copy":
			return c.Send(data, &reactor.OpOptions{Notify: true})
		}
		b, err := c.Lease(size)
		if err != nil {
			return err
		}
		if err := b.SetLen(size); err != nil {
			return err
		}
		return c.SendBuffer(b, &reactor.OpOptions{Notify: true})
	}
}

// BenchmarkLong compares long messages of 16 MiB with WRITEs of the same bytes. The
// number at the end of a case's name is the number of messages or WRITEs that are
// outstanding at the same time.
func BenchmarkLong(b *testing.B) {
	const size = 16 << 20
	for _, path := range []string{"local", "wire"} {
		connect := connect
		if path == "wire" {
			connect = connectWire
		}
		completed := 0
		p := connect(b, &hooks{completion: func(*reactor.Conn, reactor.Op, error) { completed++ }},
			&hooks{message: func(*reactor.Conn, reactor.Message) {}}, &reactor.Config{MaxLongMessage: size, Memory: reactor.Memory{LongConnBytes: 2 * size}})
		source := alloc(b, p.dialed, size, verbs.AccessRemoteRead)
		target := alloc(b, p.accepted, size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		to := remoteOf(b, p.accepted, target)
		clear(source.Bytes())
		// measure sends 16 MiB in each iteration, as requests of n bytes. At most underWay
		// requests are outstanding. The function post posts the request for the bytes from the
		// offset at on.
		measure := func(name string, n, underWay int, post func(at int) error) {
			b.Run(fmt.Sprintf("%s/%s%d", path, name, underWay), func(b *testing.B) {
				b.SetBytes(size)
				b.ReportAllocs()
				posted, first := 0, completed
				for want := 0; b.Loop(); {
					for want += size / n; posted < want || completed-first <= want-underWay; {
						for posted < want && posted-(completed-first) < underWay {
							if err := post(posted * n % size); err != nil {
								b.Fatal(err)
							}
							posted++
						}
						_, _ = p.client.RunOnce(0)
						_, _ = p.server.RunOnce(0)
					}
				}
				for completed-first < posted {
					_, _ = p.client.RunOnce(0)
					_, _ = p.server.RunOnce(0)
				}
			})
		}
		for _, underWay := range []int{1, 2} {
			measure("long", size, underWay, func(int) error {
				return p.dialed.SendV(nil, reactor.Piece{Region: source, Length: size})
			})
		}
		write := func(n int) func(at int) error {
			return func(at int) error {
				return p.dialed.Write(reactor.Remote{Addr: to.Addr + uint64(at), RKey: to.RKey}, nil, reactor.Piece{Region: source, Offset: at, Length: n})
			}
		}
		measure("write1M-", 1<<20, 1, write(1<<20))
		measure("write1M-", 1<<20, 16, write(1<<20))
		measure("write16M-", size, 1, write(size))
		measure("write16M-", size, 2, write(size))
	}
}
