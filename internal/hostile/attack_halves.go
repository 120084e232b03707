//go:build linux

package hostile

import (
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// sendHalves opens connections and sends only the first half of a message on each. In
// each round it sends the halves again that got no ACK.
//
// By default its ACK timeout and retry count are so small that a half counts as stalled
// after one second. With Spec.LongTimeout they are as large as possible.
//
// Attack.Admitted counts connections, Sent first halves, Received their first ACKs and
// all RNR NAKs, and Refused the RNR NAKs.
func sendHalves(a *attacker) error {
	s, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer s.close()
	h := halves{attacker: a, socket: s, byQPN: make(map[uint32]*half)}
	for range max(a.spec.Conns, 1) {
		if err := h.open(); err != nil {
			return err
		}
	}
	err = a.eachRound(h.round)
	if err != nil {
		return err
	}
	a.waitForStop()
	for _, half := range h.list {
		half.peer.disconnect()
	}
	return nil
}

// halves has the connections of sendHalves.
type halves struct {
	*attacker
	socket *wireSocket
	list   []*half
	byQPN  map[uint32]*half
}

// A half is a connection with the first half of a message.
type half struct {
	peer  *wirePeer
	start psn.Value // PSN of the first half
	acked bool
	asked bool // has no answer to what was sent last
}

func (h *halves) open() error {
	p := newWirePeer(h.socket, h.spec.Addr, h.rand)
	p.ackTimeout, p.retries = 12, 0
	if h.spec.LongTimeout {
		p.ackTimeout, p.retries = 31, 7
	}
	if err := p.connect(); err != nil {
		return err
	}
	h.count(func(c *Attack) { c.Admitted++ })
	own := &half{peer: p, start: p.next}
	h.list = append(h.list, own)
	h.byQPN[p.qpn] = own
	h.send(own)
	return nil
}

func (h *halves) send(own *half) {
	own.peer.next, own.asked = own.start, true
	sent := own.peer.post(wire.SendFirst, h.bytes(own.peer.mtu))
	h.count(func(c *Attack) { c.Sent++; c.SentBytes += uint64(sent) })
}

// round sends the halves that got no ACK, a few at a time, and counts the answers.
func (h *halves) round() error {
	for i, own := range h.list {
		if !own.acked {
			h.send(own)
		}
		if i%floodBurst == floodBurst-1 {
			h.receive(10 * time.Millisecond)
		}
	}
	h.receive(time.Second)
	return nil
}

// receive counts answers until each half has one, or none has arrived for the given time.
func (h *halves) receive(quiet time.Duration) {
	for slices.ContainsFunc(h.list, func(own *half) bool { return own.asked }) {
		in, err := h.socket.receive(time.Now().Add(quiet))
		if err != nil {
			return
		}
		own := h.byQPN[in.BTH().DestQP()]
		if own == nil || in.Opcode() != wire.Acknowledge || in.BTH().PSN() != own.start {
			continue
		}
		own.asked = false
		kind := in.AETH().Syndrome().Kind()
		if own.acked && kind == wire.SyndromeAck {
			continue // The half was sent twice.
		}
		own.acked = own.acked || kind == wire.SyndromeAck
		h.count(func(c *Attack) {
			c.Received++
			c.ReceivedBytes += uint64(len(in.Bytes()))
			if kind == wire.SyndromeRNRNAK {
				c.Refused++
			}
		})
	}
}
