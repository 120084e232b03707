package reactor_test

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example refuses clients above a limit, and tells them why.
func ExampleConnRequest_Reject_limit() {
	server := &limited{limit: 2}
	addr, end := serve(server)
	defer end()
	client := reader{answer: make(chan string, 1)}
	engine, endClient := run(client)
	defer endClient()
	for range 3 {
		check(engine.Dial(addr, nil))
		fmt.Println(<-client.answer)
	}
	// Output:
	// accepted
	// accepted
	// rejected: 2 clients are connected, which is the limit
}

// A limited server counts its clients: those that it has accepted, until OnClose or
// OnAcceptError. With several loops the number would have to be atomic, because the callbacks of
// a connection run on its own loop.
type limited struct {
	reactor.BaseHandler
	limit, clients int
}

func (l *limited) OnConnectRequest(req *reactor.ConnRequest) {
	if l.clients == l.limit {
		// Reject and Accept fail if the client has given up. Nothing is left to do.
		_ = req.Reject(fmt.Appendf(nil, "%d clients are connected, which is the limit", l.clients))
	} else if req.Accept(nil) == nil {
		l.clients++
	}
}

func (l *limited) OnAcceptError(*reactor.ConnRequest, error) { l.clients-- }

func (l *limited) OnClose(*reactor.Conn, error) { l.clients-- }
