package reactor_test

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This example lends memory to a server for one answer. No other peer can use the key,
// and after the answer the server can not use it either.
func ExampleConn_Show() {
	addr, end := serve(lendee{})
	defer end()
	lender := &lender{done: make(chan error, 1)}
	client, endClient := run(lender)
	defer endClient()
	check(client.Dial(addr, nil))
	check(<-lender.done)
	// Output: the server has written "answer", and has given back the key: true
}

type lender struct {
	dialer
	memory *reactor.Region
	key    uint32
	done   chan error
}

// OnOpen shows memory to the server, and sends it the address and the key.
func (l *lender) OnOpen(c *reactor.Conn) {
	var err error
	l.memory, err = c.Loop().Engine().Alloc(64, verbs.AccessLocalWrite|verbs.AccessMWBind)
	check(err)
	remote, err := c.Show(reactor.Piece{Region: l.memory, Length: 64}, verbs.AccessRemoteWrite)
	check(err)
	l.key = remote.RKey
	request, err := remote.AppendBinary(nil)
	check(err)
	check(c.Send(request, nil))
}

// OnMessage is called when the server has written the answer and made the key invalid.
func (l *lender) OnMessage(c *reactor.Conn, msg reactor.Message) {
	key, ok := msg.Invalidated()
	fmt.Printf("the server has written %q, and has given back the key: %t\n", l.memory.Bytes()[:len("answer")], ok && key == l.key)
	c.Close()
}

func (l *lender) OnClose(_ *reactor.Conn, err error) { l.done <- err }

// A lendee is a server that writes its answer to the memory that a client shows.
type lendee struct{ reactor.BaseHandler }

func (lendee) OnMessage(c *reactor.Conn, msg reactor.Message) {
	var remote reactor.Remote
	if err := remote.UnmarshalBinary(msg.Data()); err != nil {
		c.Abort(err)
		return
	}
	// The message follows the WRITE, so the client gets it when the data is there.
	check(c.WriteBytes(remote, []byte("answer"), &reactor.OpOptions{Quiet: true}))
	check(c.Send(nil, &reactor.OpOptions{Invalidate: remote.RKey}))
}
