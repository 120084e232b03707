package reactor

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A holdReason is a set of reasons why received messages wait in recvSide.held.
type holdReason uint8

const (
	heldByApp    holdReason = 1 << iota // PauseRecv was called, and neither ResumeRecv nor a close
	heldByLong                          // a long message is being received: see longReceive.mode
	heldInOrder                         // earlier messages wait
	noHoldReason holdReason = 0
)

// A heldMessages has the messages of a connection that wait because of a holdReason.
type heldMessages struct {
	bufferList
	count int // length of the list
	// number of receives without buffers that are not staged again before the list is empty
	emptyRecvs int
}

// heldCount returns how many messages wait.
func (r *recvSide) heldCount() int {
	if r.held == nil {
		return 0
	}
	return r.held.count
}

// nextHeld removes and returns the first message that waits, or returns nil.
func (r *recvSide) nextHeld() *Buffer {
	if r.heldCount() == 0 {
		return nil
	}
	r.held.count--
	return r.held.pop()
}

// errSharedRecv is the reason of the error of PauseRecv.
var errSharedRecv = errors.New("the connections of the loop share receive buffers: set DialOptions.OwnRecvQueue or ListenOptions.OwnRecvQueue")

// PauseRecv makes the peer wait. Until ResumeRecv there are no calls of OnMessage,
// OnLongMessage and OnPart, also not for messages that have already arrived: the connection
// holds them. Other callbacks come as usual, and the connection can send. A second call does
// nothing. See "Receiving" in the comment of the package.
//
// When the connection ends, the pause ends. After Close, Abort and a time limit the messages
// that are held are discarded and counted in Stats.Discarded, as others are. After any other
// end, for example that of the peer, OnMessage gets them before OnClose, so a handler that
// pauses to limit its work checks the limit in OnMessage, too. The time limits go on during a
// pause.
//
// The error matches ErrClosed unless the state is StateOpen. It is a *verbs.FeatureError if
// the connections of the loop share receive buffers and the device can not hold back one of
// them: see DialOptions.OwnRecvQueue.
func (c *Conn) PauseRecv() error {
	c.loop.owner.check()
	const op = "pause receiving"
	if c.state != stateOpen {
		return operr.Wrap(op, errClosing)
	}
	if !c.device.recvModes && c.sharesRecv() {
		return operr.Wrap(op, &verbs.FeatureError{Feature: "holding back one connection", Reason: errSharedRecv})
	}
	if !c.isPaused() {
		c.recvs.hold |= heldByApp
		c.logPause("receiving paused")
	}
	c.holdBackPeer()
	return nil
}

// ResumeRecv ends PauseRecv. The messages that are held go to OnMessage in this turn of the
// loop or the next, before later ones. Without a pause ResumeRecv does nothing.
func (c *Conn) ResumeRecv() {
	c.loop.owner.check()
	c.endPause()
}

func (c *Conn) endPause() {
	if c.isPaused() {
		c.recvs.hold &^= heldByApp
		c.logPause("receiving resumed")
		c.scheduleStep()
	}
}

// isPaused reports whether the application has paused receiving.
func (c *Conn) isPaused() bool { return c.recvs.hold&heldByApp != 0 }

// holdBackPeer makes the device hold back the peer of a paused connection if it can. With
// long messages that waits until MaxInFlight messages are held, because the peer's answer to
// a long message of this side may be behind them.
func (c *Conn) holdBackPeer() {
	if c.long != nil && c.recvs.heldCount() < c.loop.cfg.MaxInFlight {
		return
	}
	if c.device.recvModes && !c.recvs.heldBack {
		c.recvs.heldBack = c.qp.SetRecvMode(verbs.RecvPaused) == nil
	}
}

// hold lets a message wait. If that is because of PauseRecv alone, and the connection has
// receives of its own, no other receive takes the place of this one.
func (c *Conn) hold(b *Buffer) {
	r := &c.recvs
	announcement := c.long != nil && b.announcement
	switch {
	case !announcement && c.state != stateOpen && c.discardsMessages():
		c.deliverNow(b)
		return
	case r.hold&heldByLong != 0 && r.heldCount() == longWindow-1:
		c.long.violated(c.long.receive.message.Total, "the peer has sent too many messages behind it")
		c.repost(b)
		return
	case r.held == nil:
		r.held = new(heldMessages)
	}
	if b == &c.loop.inlineBuffer {
		kept, err := c.device.copyOf(b)
		if err != nil {
			c.endWith(asNoResources(err))
			return
		}
		b = kept
		b.detached = true
		if c.immediatesOnly {
			r.held.emptyRecvs++
		}
	} else if r.hold&heldByLong != 0 || c.sharesRecv() {
		c.replace(b)
		b.detached = true
	}
	b.state, b.announcement = bufferHeld, announcement
	r.hold |= heldInOrder
	r.held.push(b)
	r.held.count++
	if c.isPaused() {
		c.holdBackPeer()
	}
}

// continueRecv goes on receiving after a pause, unless the application has paused again.
func (c *Conn) continueRecv() {
	if c.long != nil {
		c.long.finishPaused()
		c.long.read()
	}
	c.deliverHeld()
}

// deliverHeld passes the messages that wait to OnMessage, up to the next long message that is
// still being received, or the next call of PauseRecv.
func (c *Conn) deliverHeld() {
	r := &c.recvs
	for r.hold&^heldInOrder == noHoldReason {
		b := r.nextHeld()
		if b == nil {
			r.hold = noHoldReason
			c.letPeerGo()
			return
		}
		if b.announcement {
			c.long.beginHeld(b)
			continue
		}
		c.deliverNow(b)
	}
}

// letPeerGo ends holdBackPeer when no message waits any more.
func (c *Conn) letPeerGo() {
	if h := c.recvs.held; h != nil {
		for ; h.emptyRecvs > 0; h.emptyRecvs-- {
			c.stageEmptyRecv()
		}
	}
	if c.recvs.heldBack {
		c.recvs.heldBack = false
		_ = c.qp.SetRecvMode(verbs.RecvInline) // It fails only if the queue pair is closed.
	}
}
