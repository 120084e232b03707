package reactor_test

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This example uses one-sided operations. The server describes a memory region in its
// private data. The client writes to the region and reads it.
func ExampleConn_Write() {
	addr, end := serve(&region{})
	defer end()
	user := &regionUser{done: make(chan error, 1)}
	client, endClient := run(user)
	defer endClient()
	check(client.Dial(addr, nil))
	check(<-user.done)
	// Output: the region contains: hello
}

type region struct {
	reactor.BaseHandler
	memory *reactor.Region
}

// OnConnectRequest allocates the region for the first client. All clients can use the
// region.
func (r *region) OnConnectRequest(req *reactor.ConnRequest) {
	if r.memory == nil {
		var err error
		r.memory, err = req.Engine().Alloc(64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		check(err)
	}
	at, err := r.memory.Remote(req.Device(), 0, 64)
	check(err)
	key, err := at.AppendBinary(nil)
	check(err)
	check(req.Accept(&reactor.AcceptOptions{PrivateData: key}))
}

type regionUser struct {
	dialer
	memory *reactor.Region
	done   chan error
}

// OnOpen posts a WRITE and then a READ, which returns the written bytes.
func (u *regionUser) OnOpen(c *reactor.Conn) {
	var remote reactor.Remote
	err := remote.UnmarshalBinary(c.Info().PeerPrivateData)
	if err != nil {
		c.Abort(err) // The peer is not the server of this example.
		return
	}
	u.memory, err = c.Loop().Engine().Alloc(64, verbs.AccessLocalWrite)
	check(err)
	n := copy(u.memory.Bytes(), "hello")
	check(c.Write(remote, nil, reactor.Piece{Region: u.memory, Length: n}))
	check(c.Read(remote, nil, reactor.Piece{Region: u.memory, Offset: 32, Length: n}))
}

// After the READ, OnCompletion prints the result and closes the connection. If an
// operation fails, the connection ends by itself.
func (u *regionUser) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	if err == nil && op.Code == verbs.OpRead {
		fmt.Printf("the region contains: %s\n", u.memory.Bytes()[32:32+op.Bytes])
		c.Close()
	}
}

func (u *regionUser) OnClose(_ *reactor.Conn, err error) { u.done <- err }
