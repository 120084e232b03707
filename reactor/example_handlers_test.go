package reactor_test

import (
	"fmt"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This example has connections of one engine that do different things. Each listener has
// a Handler of its own, and so has each connection that is dialed.
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

func (g *greeter) OnOpen(c *reactor.Conn) { check(c.Send([]byte(g.text))) }

type greeted struct {
	dialer
	texts chan string
}

func (g *greeted) OnMessage(_ *reactor.Conn, msg reactor.Message) { g.texts <- string(msg.Data()) }

// This example watches memory: in every turn of its loop the server looks at a region,
// until a client has written to it.
func ExampleLoop_SetTurnFunc() {
	watcher := &watcher{found: make(chan byte, 1)}
	addr, end := serve(watcher)
	defer end()
	client, endClient := run(&byteWriter{})
	defer endClient()
	check(client.Dial(addr, nil))
	fmt.Println("a client has written", <-watcher.found)
	// Output: a client has written 42
}

type watcher struct {
	region
	found chan byte
}

// OnOpen sets a turn function that looks at the first byte of the region. The loop does
// not sleep until the client has written that byte.
func (w *watcher) OnOpen(c *reactor.Conn) {
	loop, watched := c.Loop(), w.memory.Bytes()
	loop.SetTurnFunc(func() (worked bool) {
		if watched[0] == 0 {
			return false
		}
		w.found <- watched[0]
		loop.SetTurnFunc(nil)
		return true
	})
}

type byteWriter struct{ dialer }

func (byteWriter) OnOpen(c *reactor.Conn) {
	var remote reactor.Remote
	check(remote.UnmarshalBinary(c.PeerPrivateData()))
	memory, err := c.Alloc(1, verbs.AccessLocalWrite)
	check(err)
	memory.Bytes()[0] = 42
	check(c.Write(verbs.SGEOf(memory, 0, 1), remote, reactor.SendOptions{}))
}
