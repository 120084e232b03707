package rdmaloop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// echo is the Handler of the server. It sends every message back.
type echo struct{ reactor.BaseHandler }

// A backlog has the answers of a connection that wait for room in the send queue.
type backlog struct{ answers [][]byte }

func (echo) OnOpen(c *reactor.Conn) { c.UserData = &backlog{} }

func (echo) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := c.UserData.(*backlog)
	if len(b.answers) > 0 || !send(c, msg.Data()) {
		b.answers = append(b.answers, bytes.Clone(msg.Data()))
	}
}

// OnWritable is called when half of the send queue is free again.
func (echo) OnWritable(c *reactor.Conn) {
	b := c.UserData.(*backlog)
	for len(b.answers) > 0 && send(c, b.answers[0]) {
		b.answers = b.answers[1:]
	}
}

// send reports whether the send queue had room for the message.
func send(c *reactor.Conn, message []byte) bool {
	err := c.Send(message, nil)
	if err != nil && !errors.Is(err, reactor.ErrWouldBlock) {
		c.Abort(err)
	}
	return err == nil
}

// asker is the Handler of the client. It sends a message and waits for the answer.
type asker struct {
	reactor.BaseHandler
	answer chan string
}

func (a asker) OnOpen(c *reactor.Conn) { check(c.Send([]byte("hello"), nil)) }

func (a asker) OnMessage(_ *reactor.Conn, msg reactor.Message) { a.answer <- string(msg.Data()) }

func (a asker) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	a.answer <- err.Error()
}

// Example is the function main of the program in README.md.
func Example() {
	addr := netip.MustParseAddrPort("127.0.0.1:0")
	// An RDMA device that has the address, or else one in software.
	device, err := provider.Open("auto", &provider.Config{Addr: addr.Addr()})
	check(err)
	engine, err := reactor.New(device, echo{}, nil) // one loop, with the defaults
	check(err)
	check(engine.Start())
	listener, err := engine.Listen(addr, nil)
	check(err)

	client := asker{answer: make(chan string, 1)}
	check(engine.Dial(listener.Addr(), &reactor.DialOptions{Handler: client}))
	fmt.Println(<-client.answer)

	check(engine.Shutdown(context.Background())) // closes the connections and ends the loop
	check(device.Close())
	// Output: hello
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// TestReadmeProgram checks that the program in README.md has the code of this file. TestCommands
// runs it.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	program, _, found = strings.Cut(program, "```")
	require.True(t, found)

	here, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	example := strings.Replace(string(here), "\t// Output: hello\n", "", 1)
	_, declarations, found := strings.Cut(program, "\n)\n\n")
	require.True(t, found)
	declarations = strings.Replace(declarations, "func main() {", "func Example() {", 1)
	for paragraph := range strings.SplitSeq(declarations, "\n\n") {
		require.Contains(t, example, paragraph)
	}
}
