package reactor_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// acceptingProcess is the server of TestDescriptors. It says its address, and answers the
// message of each connection with four numbers: of its loops that have connections, of its
// connections, of its pairs of a loop and a client, and of the descriptors that it has opened.
// The arguments are the path, the UDP port of the wire path, and the number of loops.
func acceptingProcess(t *testing.T, arguments string) {
	var path soft.Path
	var port uint16
	var numLoops int
	_, err := fmt.Sscan(arguments, &path, &port, &numLoops)
	require.NoError(t, err)
	type pair struct {
		loop   *reactor.Loop
		client netip.Addr
	}
	var mu sync.Mutex
	conns, loops, pairs := 0, map[*reactor.Loop]bool{}, map[pair]bool{}
	before := peerproc.OpenDescriptors(t)
	engine := startOn(t, path, port, numLoops, &hooks{message: func(c *reactor.Conn, _ reactor.Message) {
		mu.Lock()
		defer mu.Unlock()
		conns++
		loops[c.Loop()] = true
		pairs[pair{c.Loop(), c.Info().RemoteAddr.Addr()}] = true
		must(c.Send(fmt.Append(nil, len(loops), conns, len(pairs), peerproc.OpenDescriptors(t)-before), nil))
	}})
	peerproc.Say(listen(t, engine).String())
	peerproc.Linger()
}

// dialingProcess is a client of TestDescriptors with one loop. It opens connections one after
// the other. After each one it says the answer of the server, and how many descriptors it has
// opened itself. The arguments are the path, the UDP port, the address of the server, an own
// address, and the number of connections.
func dialingProcess(t *testing.T, arguments string) {
	var path soft.Path
	var port uint16
	var server, own string
	var conns int
	_, err := fmt.Sscan(arguments, &path, &port, &server, &own, &conns)
	require.NoError(t, err)
	answers := make(chan string)
	before := peerproc.OpenDescriptors(t)
	engine := startOn(t, path, port, 1, &hooks{
		open:      func(c *reactor.Conn) { must(c.Send([]byte("count"), nil)) },
		message:   func(_ *reactor.Conn, m reactor.Message) { answers <- string(m.Data()) },
		dialError: func(_ *reactor.DialOptions, err error) { panic(err) },
		close:     func(_ *reactor.Conn, err error) { panic(err) },
	})
	options := &reactor.DialOptions{LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(own), 0)}
	for range conns {
		require.NoError(t, engine.Dial(netip.MustParseAddrPort(server), options))
		answer := <-answers
		peerproc.Say(fmt.Sprint(answer, " ", peerproc.OpenDescriptors(t)-before))
	}
	peerproc.Linger()
}

// startOn starts an engine on a device with the given path.
func startOn(t *testing.T, path soft.Path, port uint16, loops int, h reactor.Handler) *reactor.Engine {
	device, err := soft.Open(&soft.Config{Path: path, WirePort: port})
	require.NoError(t, err)
	engine, err := reactor.New(device, h, &reactor.Config{NumLoops: loops})
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	return engine
}

// TestDescriptors checks how many descriptors engines need, as Config.MaxConns and
// docs/limits.md say.
func TestDescriptors(t *testing.T) {
	const (
		engine  = 4 // an engine and its device
		loop    = 5 // a loop without connections
		clients = 3
		conns   = 4 // of each client
	)
	for path, more := range map[soft.Path]struct {
		listener, dialer, loop int // the only listener; a process that dials; a loop with connections
		accepted, dialed, pair int // a connection; a pair of loops with connections between them
	}{
		soft.PathLocal: {listener: 4, dialer: 0, loop: 3, accepted: 1, dialed: 1, pair: 1},
		soft.PathWire:  {listener: 2, dialer: 2, loop: 4, accepted: 0, dialed: 1, pair: 0},
	} {
		for numLoops := 1; numLoops <= 2; numLoops++ {
			t.Run(fmt.Sprintf("%v/%d", path, numLoops), func(t *testing.T) {
				port := freeport.UDP(t)
				line, _ := peerproc.Start(t, "accepting", fmt.Sprintf("%d %d %d", path, port, numLoops))
				addr := line()
				var loops, accepted, pairs, server, client int
				for i := range clients {
					pairsBefore := pairs
					line, _ := peerproc.Start(t, "dialing", fmt.Sprintf("%d %d %s 127.0.0.%d %d", path, port, addr, i+2, conns))
					for dialed := 1; dialed <= conns; dialed++ {
						_, err := fmt.Sscan(line(), &loops, &accepted, &pairs, &server, &client)
						require.NoError(t, err)
						require.Equal(t, i*conns+dialed, accepted)
						require.Equal(t, engine+more.listener+numLoops*loop+loops*more.loop+accepted*more.accepted+pairs*more.pair, server, "server")
						require.Equal(t, engine+more.dialer+loop+more.loop+dialed*more.dialed+(pairs-pairsBefore)*more.pair, client, "client %d", i)
					}
				}
				require.Equal(t, clients*numLoops, pairs)
			})
		}
	}
}
