package reactor_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example goes on with a second server when the first one hangs. Config.PeerTimeout says
// how long a server may be silent. The second server gets the question to which the first one
// has sent no answer, although that may have worked on it.
func ExampleConfig_failover() {
	hangs := make(chan struct{})
	first, endFirst := serve(hanging{until: hangs})
	defer endFirst()
	defer close(hangs)
	second, endSecond := serve(echoServer{})
	defer endSecond()
	client := &twoServers{servers: [2]netip.AddrPort{first, second}, answer: make(chan string, 1)}
	engine, end := runWith(client, &reactor.Config{PeerTimeout: 100 * time.Millisecond})
	defer end()
	check(engine.Loop(0).Post(func() { client.dial(engine.Loop(0)) }))
	fmt.Println(<-client.answer)
	// Output: the second server answers: hello
}

// A hanging server has a callback that does not return.
type hanging struct {
	reactor.BaseHandler
	until chan struct{}
}

func (h hanging) OnOpen(*reactor.Conn) { <-h.until }

// A twoServers is a client that dials the other server when one fails. Its callbacks run on one
// loop.
type twoServers struct {
	reactor.BaseHandler
	servers [2]netip.AddrPort
	dials   int
	answer  chan string
}

func (t *twoServers) dial(l *reactor.Loop) {
	addr := t.servers[t.dials%2]
	t.dials++
	// Dial fails if the client shuts down.
	_ = l.Engine().Dial(addr, &reactor.DialOptions{Timeout: time.Second, UserData: l})
}

// OnDialError waits after both servers have failed: the error may come at once.
func (t *twoServers) OnDialError(_ *reactor.Loop, _ netip.AddrPort, o *reactor.DialOptions, _ error) {
	l := o.UserData.(*reactor.Loop)
	if t.dials%2 == 1 {
		t.dial(l)
		return
	}
	l.After(100*time.Millisecond, func() { t.dial(l) })
}

func (t *twoServers) OnOpen(c *reactor.Conn) { check(c.Send([]byte("hello"), nil)) }

func (t *twoServers) OnMessage(c *reactor.Conn, msg reactor.Message) {
	name := map[netip.AddrPort]string{t.servers[0]: "first", t.servers[1]: "second"}[c.Info().RemoteAddr]
	t.answer <- fmt.Sprintf("the %s server answers: %s", name, msg.Data())
}

// OnClose gets an error that says that the server was silent, or why the connection has ended.
// The error is nil if this side has closed it.
func (t *twoServers) OnClose(c *reactor.Conn, err error) {
	if err != nil {
		t.dial(c.Loop())
	}
}
