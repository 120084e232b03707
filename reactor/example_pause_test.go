package reactor_test

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example bounds what a server keeps for a client that reads its answers slowly: while
// 64 of them wait, the server receives no more requests, and the client has to wait.
func ExampleConn_PauseRecv() {
	addr, end := serve(boundedServer{})
	defer end()
	client := &flooder{left: 10_000, total: make(chan int, 1)}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(addr, nil))
	fmt.Println("answers:", <-client.total)
	// Output: answers: 10000
}

// A boundedServer is an echoServer with at most maxBacklog answers for each client.
type boundedServer struct{ echoServer }

const maxBacklog = 64

func (s boundedServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	s.echoServer.OnMessage(c, msg)
	if len(c.UserData.(*backlog).held) >= maxBacklog {
		_ = c.PauseRecv() // On a soft device it fails only if the connection ends.
	}
}

func (s boundedServer) OnWritable(c *reactor.Conn) {
	s.echoServer.OnWritable(c)
	if len(c.UserData.(*backlog).held) == 0 {
		c.ResumeRecv()
	}
}
