package rdmaloop_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// echo sends every message back.
type echo struct{ reactor.BaseHandler }

func (echo) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if err := c.Send(msg.Data()); err != nil {
		c.Abort(err) // the peer sends but does not read the answers
	}
}

// Example runs the server that README.md shows, and a client for it.
func Example() {
	device, err := soft.Open(nil) // an RDMA device in software
	check(err)
	engine, err := reactor.New(device, echo{}, nil) // one loop, with the defaults
	check(err)
	check(engine.Start())
	listener, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	check(err)

	client := asker{question: "hello", answer: make(chan string, 1)}
	peer, err := soft.Open(nil) // a second device, as in another process
	check(err)
	other, err := reactor.New(peer, client, nil)
	check(err)
	check(other.Start())
	check(other.Dial(listener.Addr(), &reactor.DialOptions{}))
	fmt.Println(<-client.answer)

	check(other.Shutdown(context.Background()))
	check(engine.Shutdown(context.Background()))
	check(errors.Join(peer.Close(), device.Close()))
	// Output: hello
}

// asker is a Handler that sends one message and passes the answer to a channel.
type asker struct {
	reactor.BaseHandler
	question string
	answer   chan string
}

func (a asker) OnOpen(c *reactor.Conn) { check(c.Send([]byte(a.question))) }

func (a asker) OnMessage(_ *reactor.Conn, msg reactor.Message) { a.answer <- string(msg.Data()) }

func (a asker) OnDialError(_ *reactor.DialOptions, err error) { a.answer <- err.Error() }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// TestReadmeExample checks that README.md shows the code of this file.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	here, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	block, _, found = strings.Cut(block, "```")
	require.True(t, found)
	for paragraph := range strings.SplitSeq(block, "\n\n") {
		require.Contains(t, unindented(string(here)), unindented(paragraph))
	}
}

func unindented(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
