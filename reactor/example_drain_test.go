//go:build unix

package reactor_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example ends a server on SIGTERM. A client first gets the answer that a goroutine is
// computing, and then the reason for the end. The program examples/rpc is such a server.
func ExampleHandler_stop() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	begun := make(chan string)
	addr, end := serve(draining{compute: func(question string) string {
		begun <- question
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond) // The end waits for it.
		return "42"
	}})
	client := &told{asker{question: "What is 6 times 7?", answer: make(chan string, 2)}}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(addr, nil))
	fmt.Println(<-begun)
	check(syscall.Kill(syscall.Getpid(), syscall.SIGTERM))

	<-ctx.Done()
	end() // It calls Engine.Shutdown.
	fmt.Println(<-client.answer)
	fmt.Println(<-client.answer)
	// Output:
	// What is 6 times 7?
	// 42
	// closed by the peer (shutting down: "maintenance")
}

// A draining server computes answers on goroutines. The UserData of a Conn is a *dialog, which
// only the loop of the connection uses. So the server may have any number of connections and
// loops.
type draining struct {
	reactor.BaseHandler
	compute func(question string) string
}

// A dialog is what the server knows about one connection.
type dialog struct {
	computing int      // questions whose answers are being computed
	answers   [][]byte // answers that wait for room in the send queue
	stopping  bool     // after OnStop
}

func (draining) OnOpen(c *reactor.Conn) { c.UserData = &dialog{} }

func (d draining) OnMessage(c *reactor.Conn, msg reactor.Message) {
	v := c.UserData.(*dialog)
	if v.stopping {
		return // PauseRecv has failed, or the client has ended the pause by closing.
	}
	v.computing++
	question := string(msg.Data())
	go func() {
		answer := d.compute(question)
		_ = c.PostWait(context.Background(), func(err error) { // It fails if the loop has ended.
			if v.computing--; err == nil { // The connection is open.
				v.answers = append(v.answers, []byte(answer))
				v.proceed(c)
			}
		})
	}()
}

func (draining) OnWritable(c *reactor.Conn) { c.UserData.(*dialog).proceed(c) }

// OnStop is called for each connection when the engine shuts down. The server takes no more
// questions. After Config.Limits.StopTimeout the engine closes the connection if proceed has
// not done so.
func (draining) OnStop(c *reactor.Conn) {
	v := c.UserData.(*dialog)
	v.stopping = true
	_ = c.PauseRecv() // Not every device can hold back one client.
	v.proceed(c)
}

// proceed sends the answers for which there is room. After OnStop and the last answer it closes
// the connection.
func (v *dialog) proceed(c *reactor.Conn) {
	for len(v.answers) > 0 {
		err := c.Send(v.answers[0], nil)
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // OnWritable follows.
		}
		if err != nil {
			_ = c.Abort(err)
			return
		}
		v.answers = v.answers[1:]
	}
	if v.stopping && v.computing == 0 {
		_ = c.CloseWith(0, "maintenance")
	}
}

// A told client also passes on why its connection has ended.
type told struct{ asker }

func (t *told) OnClose(_ *reactor.Conn, err error) { t.answer <- err.Error() }
