//go:build unix

package reactor_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example ends a server on SIGTERM. A client first gets the answer that a goroutine is
// computing, and then the reason for the end. The program examples/rpc is such a server.
func ExampleHandler_stop() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &draining{begun: make(chan struct{}), finish: make(chan struct{})}
	addr, end := serve(server)
	client := &told{asker{question: "What is 6 times 7?", answer: make(chan string, 2)}}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(addr, nil))
	<-server.begun
	check(syscall.Kill(syscall.Getpid(), syscall.SIGTERM))

	<-ctx.Done()
	end() // It calls Engine.Shutdown.
	fmt.Println(<-client.answer)
	fmt.Println(<-client.answer)
	// Output:
	// 42
	// closed by the peer (shutting down: "maintenance")
}

// A draining server computes answers on goroutines. The UserData of a Conn is a *int, the number
// of its questions without an answer.
type draining struct {
	reactor.BaseHandler
	begun, finish chan struct{} // the example closes them when a computation begins and may end
	stopping      bool
}

func (d *draining) OnOpen(c *reactor.Conn) { c.UserData = new(int) }

func (d *draining) OnMessage(c *reactor.Conn, _ reactor.Message) {
	unanswered := c.UserData.(*int)
	*unanswered++
	go func() {
		close(d.begun)
		<-d.finish
		_ = c.PostWait(context.Background(), func(err error) { // It fails if the loop has ended.
			if err == nil { // The connection is open.
				*unanswered--
				check(c.Send([]byte("42"), nil))
				d.closeIfAnswered(c)
			}
		})
	}()
}

// OnStop is called when the engine shuts down. The server takes no more questions. After
// Config.Limits.StopTimeout the engine closes the connection if closeIfAnswered has not done so.
func (d *draining) OnStop(c *reactor.Conn) {
	d.stopping = true
	check(c.PauseRecv())
	close(d.finish)
	d.closeIfAnswered(c)
}

func (d *draining) closeIfAnswered(c *reactor.Conn) {
	if d.stopping && *c.UserData.(*int) == 0 {
		check(c.CloseWith(0, "maintenance"))
	}
}

// A told client also passes on why its connection has ended.
type told struct{ asker }

func (t *told) OnClose(_ *reactor.Conn, err error) { t.answer <- err.Error() }
