package reactor_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This example has connections for different purposes on one engine. Each listener and
// each dialed connection has its own Handler.
func ExampleListenOptions() {
	server, end := run(reactor.BaseHandler{})
	defer end()
	client, endClient := run(reactor.BaseHandler{})
	defer endClient()
	for _, text := range []string{"control connection", "data connection"} {
		options := &reactor.ListenOptions{Handler: &greeter{text: text}}
		listener, err := server.Listen(netip.MustParseAddrPort("127.0.0.1:0"), options)
		check(err)
		greeted := &greeted{texts: make(chan string, 1)}
		check(client.Dial(listener.Addr(), &reactor.DialOptions{Handler: greeted}))
		fmt.Println(<-greeted.texts)
	}
	// Output:
	// control connection
	// data connection
}

// A greeter sends a text to each client.
type greeter struct {
	reactor.BaseHandler
	text string
}

func (g *greeter) OnOpen(c *reactor.Conn) { check(c.Send([]byte(g.text), nil)) }

type greeted struct {
	reactor.BaseHandler
	texts chan string
}

func (*greeted) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	check(err)
}

func (g *greeted) OnMessage(_ *reactor.Conn, msg reactor.Message) { g.texts <- string(msg.Data()) }

// This example watches memory: the server looks at a region in every turn, until a
// client has written to it.
func ExampleLoop_SetTurnFunc() {
	watcher := &watcher{found: make(chan uint64, 1)}
	addr, end := serve(watcher)
	defer end()
	client, endClient := run(&wordWriter{})
	defer endClient()
	check(client.Dial(addr, nil))
	fmt.Println("a client has written", <-watcher.found)
	// Output: a client has written 42
}

type watcher struct {
	region
	found chan uint64
}

// OnOpen sets a turn function, which keeps the loop awake until the first word of the
// region was written.
func (w *watcher) OnOpen(c *reactor.Conn) {
	loop := c.Loop()
	loop.SetTurnFunc(func() (worked bool) {
		word := verbs.LoadUint64(w.memory.Bytes(), 0)
		if word == 0 {
			return false
		}
		w.found <- word
		loop.SetTurnFunc(nil)
		return true
	})
}

type wordWriter struct{ dialer }

func (wordWriter) OnOpen(c *reactor.Conn) {
	var remote reactor.Remote
	check(remote.UnmarshalBinary(c.Info().PeerPrivateData))
	memory, err := c.Loop().Engine().Alloc(8, verbs.AccessLocalWrite)
	check(err)
	// Server and client run on one machine, so both have the same byte order.
	binary.NativeEndian.PutUint64(memory.Bytes(), 42)
	check(c.Write(remote, nil, reactor.Piece{Region: memory, Length: 8}))
}
