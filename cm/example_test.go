package cm_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This example makes and ends a connection. Both sides use one event channel. Each event
// determines the next call.
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

// timeout limits the resolution of addresses and routes.
const timeout = 10 * time.Second

// A pair has the IDs of both sides of a connection, and the objects that both queue
// pairs use.
type pair struct {
	client, server *cm.ID
	pd             verbs.PD
	memory         verbs.MR
	group          *cq.Group
	queue          *cq.Queue
}

// step reacts to an event.
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
			check(p.client.Disconnect(nil))
		}
	case cm.Disconnected:
		check(ev.ID.Disconnect(nil))
	case cm.TimewaitExit:
		return // The program need not react to this event.
	default:
		panic(ev.Err)
	}
	p.print(ev)
}

// createQP creates an ID's queue pair and posts one receive buffer.
func (p *pair) createQP(id *cm.ID) {
	if p.pd == nil {
		p.open(id.Device())
	}
	check(id.CreateQP(p.pd, &verbs.QPInitAttr{
		Type: verbs.QPTypeRC, SendCQ: p.queue.CQ(), RecvCQ: p.queue.CQ(),
		Caps: verbs.QPCaps{MaxRecvWR: 1, MaxInline: 16},
	}))
	_, err := id.QP().PostRecv([]verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(p.memory, 0, 64)}}})
	check(err)
}

// open creates what the queue pairs share.
func (p *pair) open(device verbs.Device) {
	var err error
	p.pd, err = device.AllocPD()
	check(err)
	p.memory, err = p.pd.Alloc(&verbs.AllocAttr{Size: 64, Access: verbs.AccessLocalWrite})
	check(err)
	p.group, err = cq.NewGroup(device, nil)
	check(err)
	p.queue, err = p.group.NewQueue(4)
	check(err)
}

// completion waits for a completion.
func (p *pair) completion(ctx context.Context) verbs.WC {
	for {
		wcs, err := p.queue.Poll()
		check(err)
		if len(wcs) > 0 {
			check(wcs[0].Err())
			return wcs[0]
		}
		check(p.group.Wait(ctx))
	}
}

func (p *pair) close() {
	for _, id := range []*cm.ID{p.client, p.server} {
		if id != nil {
			check(errors.Join(id.CloseQP(), id.Close()))
		}
	}
	check(errors.Join(p.queue.Close(), p.group.Close(), p.memory.Close(), p.pd.Close()))
}

// print prints an event.
func (p *pair) print(ev *cm.Event) {
	who := "client"
	if ev.ID == p.server {
		who = "server"
	}
	what := ev.Type.String()
	if text := unpadded(ev.Param.PrivateData); text != "" {
		what += fmt.Sprintf(" %q", text)
	}
	fmt.Printf("%s: %s\n", who, what)
}

// unpadded returns private data without the zeros that most devices append.
func unpadded(data []byte) string { return strings.TrimRight(string(data), "\x00") }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// This example has a client and a server without event loops. They sleep in Expect until
// the next event, and in cq.Group.Wait until the message is complete.
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
	// client: connected "welcome"
	// server: received "hello"
	// server: disconnected
}

// serveOne accepts a connection, receives a message, and waits for the end of the
// connection.
func serveOne(ctx context.Context, channel *cm.EventChannel) {
	request, err := channel.Expect(ctx, cm.ConnectRequest)
	check(err)
	server := pair{server: request.ID}
	server.createQP(request.ID)
	check(request.ID.Accept(&cm.ConnParam{PrivateData: []byte("welcome")}))
	_, err = channel.Expect(ctx, cm.Established)
	check(err)
	wc := server.completion(ctx)
	fmt.Printf("server: received %q\n", server.memory.Bytes()[:wc.ByteLen])
	_, err = channel.Expect(ctx, cm.Disconnected)
	check(err)
	fmt.Println("server: disconnected")
	check(request.ID.Disconnect(nil))
	server.close()
}

// dial connects to the address, sends a message, and disconnects.
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
	answer, err := channel.Expect(ctx, cm.Established)
	check(err)
	fmt.Printf("client: connected %q\n", unpadded(answer.Param.PrivateData))
	_, err = id.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte("hello")}})
	check(err)
	client.completion(ctx) // the message is in the server's receive buffer
	check(id.Disconnect(nil))
	_, err = channel.Expect(ctx, cm.Disconnected)
	check(err)
	client.close()
	check(channel.Close())
}
