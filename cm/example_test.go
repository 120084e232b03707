package cm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This example makes a connection and ends it, with both sides on one event channel. Each
// event determines the next call. No messages are sent; the example of package cq sends
// messages.
func Example() {
	provider, err := soft.Open(nil) // an RDMA device in software
	check(err)
	channel, err := cm.OpenChannel(provider)
	check(err)
	epoll, err := poller.New(1)
	check(err)
	_, err = epoll.Add(channel.FD(), poller.Readable, 0)
	check(err)

	listener, err := channel.NewID(cm.TCP)
	check(err)
	check(listener.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	check(listener.Listen(0))
	client, err := channel.NewID(cm.TCP)
	check(err)
	check(client.ResolveAddr(netip.AddrPort{}, listener.LocalAddr(), timeout))

	both := pair{client: client}
	for client.State() != cm.StateDisconnected {
		ev, ok, err := channel.Next()
		check(err)
		if !ok { // sleep until there may be an event
			_, err = epoll.Wait(-1)
			check(err)
			continue
		}
		both.step(&ev)
		check(ev.Ack())
	}
	both.close()
	check(errors.Join(listener.Close(), channel.Close(), epoll.Close(), provider.Close()))
	// Output:
	// client: address resolved
	// client: route resolved
	// server: connect request "let me in"
	// client: established "welcome"
	// server: established
	// server: disconnected
	// client: disconnected
}

// timeout is the timeout of address and route resolution.
const timeout = 10 * time.Second

// A pair has both sides of the connection and the objects for their queue pairs.
type pair struct {
	client, server *cm.ID
	pd             verbs.PD
	queue          verbs.CQ
}

// step reacts to an event. The server gets Disconnected when the client disconnects, and
// answers with Disconnect. The client gets Disconnected for the answer of the server;
// Disconnect has no effect then.
func (p *pair) step(ev *cm.Event) {
	switch ev.Type {
	case cm.AddrResolved:
		check(ev.ID.ResolveRoute(timeout))
	case cm.RouteResolved:
		p.createQP(ev.ID)
		check(ev.ID.Connect(&cm.ConnParam{PrivateData: []byte("let me in")}))
	case cm.ConnectRequest:
		p.server = ev.ID
		p.createQP(ev.ID)
		check(ev.ID.Accept(&cm.ConnParam{PrivateData: []byte("welcome")}))
	case cm.Established:
		if ev.ID == p.server {
			check(p.client.Disconnect())
		}
	case cm.Disconnected:
		check(ev.ID.Disconnect())
	case cm.TimewaitExit:
		return // this event needs no reaction
	default:
		panic(ev.Err)
	}
	p.print(ev)
}

// createQP creates the queue pair of an ID. For the first queue pair createQP also
// creates the protection domain and the CQ, because the device is not known before the
// address is resolved. An application would post receive buffers here too.
func (p *pair) createQP(id *cm.ID) {
	if p.pd == nil {
		var err error
		p.pd, err = id.Device().AllocPD()
		check(err)
		p.queue, err = id.Device().CreateCQ(&verbs.CQAttr{Depth: 4})
		check(err)
	}
	check(id.CreateQP(p.pd, &verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: p.queue, RecvCQ: p.queue}))
}

func (p *pair) close() {
	for _, id := range []*cm.ID{p.client, p.server} {
		if id != nil {
			check(errors.Join(id.CloseQP(), id.Close()))
		}
	}
	check(p.queue.Close())
	check(p.pd.Close())
}

// print prints the event without the zeros with which most devices pad private data.
func (p *pair) print(ev *cm.Event) {
	who := "client"
	if ev.ID == p.server {
		who = "server"
	}
	what := ev.Type.String()
	if text := strings.TrimRight(string(ev.Param.PrivateData), "\x00"); text != "" {
		what += fmt.Sprintf(" %q", text)
	}
	fmt.Printf("%s: %s\n", who, what)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// This example has a client and a server without an event loop. Each of them has an
// event channel of its own, and sleeps in Expect until the event that it needs has
// arrived.
func ExampleEventChannel_Expect() {
	provider, err := soft.Open(nil)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	channel, err := cm.OpenChannel(provider)
	check(err)
	listener, err := channel.NewID(cm.TCP)
	check(err)
	check(listener.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	check(listener.Listen(0))
	served := make(chan struct{})
	go func() {
		serveOne(ctx, channel)
		check(errors.Join(listener.Close(), channel.Close()))
		close(served)
	}()
	dial(ctx, provider, listener.LocalAddr())
	<-served
	check(provider.Close())
	// Output:
	// client: connected
	// server: disconnected
}

// serveOne accepts one connection and waits until the client disconnects.
func serveOne(ctx context.Context, channel *cm.EventChannel) {
	request, err := channel.Expect(ctx, cm.ConnectRequest)
	check(err)
	server := pair{server: request.ID}
	server.createQP(request.ID)
	check(request.ID.Accept(nil))
	_, err = channel.Expect(ctx, cm.Established)
	check(err)
	_, err = channel.Expect(ctx, cm.Disconnected)
	check(err)
	fmt.Println("server: disconnected")
	check(request.ID.Disconnect())
	server.close()
}

// dial connects to the address and disconnects again.
func dial(ctx context.Context, provider cm.Provider, address netip.AddrPort) {
	channel, err := cm.OpenChannel(provider)
	check(err)
	id, err := channel.NewID(cm.TCP)
	check(err)
	check(id.ResolveAddr(netip.AddrPort{}, address, timeout))
	_, err = channel.Expect(ctx, cm.AddrResolved)
	check(err)
	check(id.ResolveRoute(timeout))
	_, err = channel.Expect(ctx, cm.RouteResolved)
	check(err)
	client := pair{client: id}
	client.createQP(id)
	check(id.Connect(nil))
	_, err = channel.Expect(ctx, cm.Established)
	check(err)
	fmt.Println("client: connected")
	check(id.Disconnect())
	_, err = channel.Expect(ctx, cm.Disconnected)
	check(err)
	client.close()
	check(channel.Close())
}
