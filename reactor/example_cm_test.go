package reactor_test

import (
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example does what ExampleEventChannel_Expect of package cm does. The callbacks take the
// place of the events and completions.
func ExampleHandler_events() {
	server := hello{ended: make(chan struct{})}
	addr, end := serve(server)
	defer end()
	client, endClient := run(caller{})
	defer endClient()
	check(client.Dial(addr, nil))
	<-server.ended
	// Output:
	// client: connected "welcome"
	// server: received "hello"
	// server: disconnected
}

// hello is the server.
type hello struct {
	reactor.BaseHandler
	ended chan struct{}
}

func (hello) OnConnectRequest(req *reactor.ConnRequest) {
	check(req.Accept(&reactor.AcceptOptions{PrivateData: []byte("welcome")}))
}

func (hello) OnMessage(_ *reactor.Conn, msg reactor.Message) {
	fmt.Printf("server: received %q\n", msg.Data())
}

func (h hello) OnClose(_ *reactor.Conn, err error) {
	if errors.Is(err, reactor.ErrPeerClosed) {
		fmt.Println("server: disconnected")
	}
	close(h.ended)
}

// A caller is the client.
type caller struct{ dialer }

func (caller) OnOpen(c *reactor.Conn) {
	fmt.Printf("client: connected %q\n", unpadded(c.Info().PeerPrivateData))
	check(c.Send([]byte("hello"), nil))
	check(c.Close())
}
