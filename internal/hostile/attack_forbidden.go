//go:build linux

package hostile

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// sendForbidden sends forbidden requests on Spec.Conns connections at a time: messages
// that are longer than the server receives. Each ends its connection, and makes the
// server's device raise an event. A round is one dial. Attack.Admitted counts the
// connections that have opened.
func sendForbidden(a *attacker) (err error) {
	device, err := soft.Open(&soft.Config{Path: a.spec.Path})
	if err != nil {
		return err
	}
	f := &forbidder{a: a, long: make([]byte, 2*maxMessage), over: newEvent(), node: node{device: device}}
	if f.engine, err = reactor.New(device, f, &reactor.Config{MaxMessage: len(f.long)}); err == nil {
		err = f.engine.Start()
	}
	if err != nil {
		return errors.Join(err, device.Close())
	}
	defer func() { err = errors.Join(err, f.close()) }()
	f.busy = max(a.spec.Conns, 1)
	for range f.busy {
		f.redial(0)
	}
	select {
	case <-f.over.done:
	case <-a.ctx.Done():
	}
	return nil
}

// A forbidder is the Handler of sendForbidden.
type forbidder struct {
	reactor.BaseHandler
	node
	a     *attacker
	long  []byte
	dials int // number of dials so far; only the loop uses it
	busy  int // number of connections and dials that have not ended; only the loop uses it
	over  *event
}

// redial dials the server after a pause, unless all rounds are over.
func (f *forbidder) redial(pause time.Duration) {
	_ = f.engine.Loop(0).Post(func() { // Post fails only if the attack has ended.
		f.engine.Loop(0).After(pause, f.dial)
	})
}

func (f *forbidder) dial() {
	if rounds := f.a.spec.Rounds; rounds > 0 && f.dials == rounds {
		if f.busy--; f.busy == 0 {
			f.over.happen()
		}
		return
	}
	f.dials++
	f.a.count(func(c *Attack) { c.Rounds++ })
	if f.engine.Dial(f.a.spec.Addr, nil) != nil {
		f.over.happen() // The attack has ended.
	}
}

// OnOpen sends the forbidden message.
func (f *forbidder) OnOpen(c *reactor.Conn) {
	_ = c.Send(f.long, nil) // After an error OnClose follows.
	f.a.count(func(n *Attack) { n.Admitted++; n.Sent++; n.SentBytes += uint64(len(f.long)) })
}

// OnClose dials again.
func (f *forbidder) OnClose(*reactor.Conn, error) { f.redial(0) }

// OnDialError counts the refusal and dials again.
func (f *forbidder) OnDialError(*reactor.Loop, netip.AddrPort, *reactor.DialOptions, error) {
	f.a.count(func(n *Attack) { n.Refused++ })
	f.redial(time.Millisecond)
}
