package cq_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This program sends one message without the reactor. It uses packages cm, cq and
// poller, and sleeps while there are no completions.
func Example() {
	provider, err := soft.Open(nil) // the device is implemented in software
	check(err)
	devices, err := provider.Devices()
	check(err)
	pd, err := devices[0].AllocPD()
	check(err)
	memory, err := pd.Alloc(&verbs.AllocAttr{Size: 64, Access: verbs.AccessLocalWrite})
	check(err)
	group, err := cq.NewGroup(devices[0], nil)
	check(err)
	queue, err := group.NewQueue(16)
	check(err)
	epoll, err := poller.New(1)
	check(err)
	_, err = epoll.Add(group.FD(), poller.Readable, 0)
	check(err)

	client, server, disconnect := connect(provider, pd, queue)
	_, err = server.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: []verbs.SGE{verbs.SGEOf(memory, 0, 64)}}})
	check(err)
	_, err = client.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("hello")}})
	check(err)
	for _, wc := range nextCompletions(group, queue, epoll) {
		check(wc.Err())
		fmt.Printf("request %d received %q\n", wc.ID, memory.Bytes()[:wc.ByteLen])
	}
	disconnect()
	check(errors.Join(epoll.Close(), queue.Close(), group.Close(), memory.Close(), pd.Close(), provider.Close()))
	// Output: request 1 received "hello"
}

// nextCompletions sleeps until there are completions, and returns them. No sleep is
// longer than 100 ms, because some devices lose events.
func nextCompletions(group *cq.Group, queue *cq.Queue, epoll *poller.Poller) []verbs.WC {
	for lost := false; ; {
		wcs, err := queue.Poll()
		check(err)
		if len(wcs) > 0 {
			if lost {
				group.Rescued()
			}
			return wcs
		}
		busy, err := group.Arm()
		check(err)
		if busy {
			continue
		}
		ready, err := epoll.Wait(100 * time.Millisecond)
		check(err)
		events, err := group.Consume()
		check(err)
		lost = ready == 0 && events == 0
	}
}

// connect connects two queue pairs of this process. Call disconnect() to end the
// connection.
func connect(p cm.Provider, pd verbs.PD, queue *cq.Queue) (client, server verbs.QP, disconnect func()) {
	channel, err := cm.OpenChannel(p)
	check(err)
	listener, err := channel.NewID(cm.TCP)
	check(err)
	check(listener.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	check(listener.Listen(0))

	active, err := channel.NewID(cm.TCP)
	check(err)
	check(active.ResolveAddr(netip.AddrPort{}, listener.LocalAddr(), 10*time.Second))
	await(channel, cm.AddrResolved)
	check(active.ResolveRoute(10 * time.Second))
	await(channel, cm.RouteResolved)
	createQP(active, pd, queue)
	check(active.Connect(nil))
	passive := await(channel, cm.ConnectRequest)
	createQP(passive, pd, queue)
	check(passive.Accept(nil))
	await(channel, cm.Established) // event for the client's ID
	await(channel, cm.Established) // event for the server's ID
	return active.QP(), passive.QP(), func() {
		for _, id := range []*cm.ID{active, passive} {
			check(errors.Join(id.CloseQP(), id.Close()))
		}
		check(errors.Join(listener.Close(), channel.Close()))
	}
}

// await sleeps until the next event, which must have the given type.
func await(channel *cm.EventChannel, want cm.EventType) *cm.ID {
	ev, err := channel.Expect(context.Background(), want)
	check(err)
	return ev.ID
}

// createQP creates the queue pair of an ID, and reserves places for its completions.
func createQP(id *cm.ID, pd verbs.PD, queue *cq.Queue) {
	check(queue.Reserve(2))
	check(id.CreateQP(pd, &verbs.QPInitAttr{
		Type: verbs.QPTypeRC, SendCQ: queue.CQ(), RecvCQ: queue.CQ(),
		Caps: verbs.QPCaps{MaxSendWR: 1, MaxRecvWR: 1, MaxRecvSGE: 1, MaxInline: 16},
	}))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
