package reactor

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/reactor/internal/longmsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// IdleState reports whether a loop takes its process for one with a single processor, and
// whether it is locked to a thread. The loop does not run.
func IdleState(l *Loop) (alone, locked bool) { return l.idle.alone, l.idle.locked }

// At intervals of TrimEvery, the loop frees unused memory and CQs.
const TrimEvery = trimEvery

// Chunks returns the memory regions from which l takes its buffers.
func Chunks(l *Loop) (mrs []verbs.MR) {
	for _, d := range l.devices {
		for b := range d.pool.All() {
			if mr := b.slot.Region(); !slices.Contains(mrs, mr) {
				mrs = append(mrs, mr)
			}
		}
	}
	return mrs
}

// InjectDeviceEvent makes the loop of c handle an asynchronous event of its device. The
// event is about the object of c for which the device raises such events.
func InjectDeviceEvent(c *Conn, what verbs.AsyncEventType) { InjectDeviceEventOn(c.loop, c, what) }

// InjectDeviceEventOn is InjectDeviceEvent for an event that the loop l has fetched.
func InjectDeviceEventOn(l *Loop, c *Conn, what verbs.AsyncEventType) {
	ev := verbs.AsyncEvent{Type: what}
	switch what {
	case verbs.AsyncCQError:
		ev.CQ = c.queue.cq()
	case verbs.AsyncSRQError, verbs.AsyncSRQLimit:
		ev.SRQ = c.device.sharedRecv.srq
	case verbs.AsyncQPFatal, verbs.AsyncQPRequestError, verbs.AsyncQPAccessError, verbs.AsyncQPLastWQE:
		ev.QP = c.qp
	}
	(&asyncSource{loop: l, dev: c.device.dev}).report(ev)
}

// InjectLateEvent makes c handle an event that was posted to its loop before c ended.
func InjectLateEvent(c *Conn, what verbs.AsyncEventType) { c.queuePairEvent(c.device.dev, what) }

// AddNilConns adds n connections that are nil to the table of l. The function remove
// removes them.
func AddNilConns(l *Loop, n int) (remove func()) {
	var added []slots.Handle
	for range n {
		added = append(added, l.conns.table.Put(nil))
	}
	return func() {
		for _, h := range added {
			l.conns.table.RemoveAt(h.Index())
		}
	}
}

// OwnedQPs returns for how many queue pairs e knows the connection.
func OwnedQPs(e *Engine) int {
	e.qpOwners.mu.Lock()
	defer e.qpOwners.mu.Unlock()
	return len(e.qpOwners.conns)
}

// PostedFunctions returns how many posted functions l has called before this turn.
func PostedFunctions(l *Loop) uint64 { return l.stats.Posted }

// FetchAsyncEvents makes the loop of c fetch the asynchronous events of its device.
func FetchAsyncEvents(c *Conn) { (&asyncSource{loop: c.loop, dev: c.device.dev}).ready(0) }

// FailCQ makes the loop of c handle the error err of its CQ.
func FailCQ(c *Conn, err error) { c.device.fail(err) }

// FailRequest makes c handle a request that has failed with the status s.
func FailRequest(c *Conn, s verbs.Status) { _ = c.fail(&verbs.WC{Status: s}, false) }

// EndSleepByTimeout sets the state of l as if the safety timeout had ended its last
// sleep.
func EndSleepByTimeout(l *Loop) { l.safetyWake = true }

// Internal states of a connection. Several of them may belong to one ConnState.
const (
	FirstConnState            = stateDialing
	InternalConnecting        = stateConnecting
	StateOpenFailed           = stateOpenFailed
	InternalDraining          = stateDraining
	StateCloseBegun           = stateCloseBegun
	StateAwaitingDisconnected = stateAwaitingDisconnected
	StateAwaitingEmptyCQ      = stateAwaitingEmptyCQ
	StateFlushing             = stateFlushing
	InternalDisconnecting     = stateDisconnecting
	StateAwaitingLastWQE      = stateAwaitingLastWQE
	LastConnState             = stateClosed
)

// InternalState returns the internal state of c. Coarse returns the ConnState of an
// internal state.
func InternalState(c *Conn) connState { return c.state }
func Coarse(s connState) ConnState    { return s.coarse() }

// Events of a connection, see transitions.
const (
	FirstConnEvent = eventQueuePair
	NumConnEvents  = numConnEvents
)

// CauseEvent makes c handle an event, after setting the reason that the event needs.
func CauseEvent(c *Conn, e connEvent) {
	switch e {
	case eventRefused, eventAbort, eventReason:
		c.closing.reason.setCause(ErrTimeout)
	}
	c.on(e)
}

// Transition returns in which states a connection may be after an event in the state s.
// If the event is ignored, the second result is true.
func Transition(s connState, e connEvent) (to func(connState) bool, ignored bool) {
	t := transitions[s][e]
	return t.to.has, t.action == doNothing
}

// EnterAwaitingLastWQE moves c to StateAwaitingLastWQE.
func EnterAwaitingLastWQE(c *Conn) { c.enterFor(stateAwaitingLastWQE, lastWQETimeout) }

// StopStateTimer removes the time limit of the connection's state. EndStateTimer makes
// this time limit pass before a later turn of the loop.
func StopStateTimer(c *Conn) { c.loop.timers.Stop(&c.stateTimer) }
func EndStateTimer(c *Conn)  { c.repeatTimeout() }

// ScheduleStep makes a closing connection take another step.
func ScheduleStep(c *Conn) { c.scheduleStep() }

// InjectEvent makes c handle a connection event of the given type.
func InjectEvent(c *Conn, typ cm.EventType) { c.handleEvent(typ, nil, nil) }

// InjectError makes c handle a connection event of the given type with an error.
func InjectError(c *Conn, typ cm.EventType, err error) { c.handleEvent(typ, err, nil) }

// RemoveDevice makes c handle the removal of its device.
func RemoveDevice(c *Conn) { c.handleEvent(cm.DeviceRemoval, nil, nil) }

// FailAlloc makes allocations of memory for the buffers of l fail with err. The function
// end() ends this fault.
func FailAlloc(l *Loop, err error) (end func()) {
	p := &l.devices[0].pool
	pd := p.PD
	p.PD = failingPD{pd, err}
	return func() { p.PD = pd }
}

// A failingPD is a protection domain whose method Alloc fails with the field err.
type failingPD struct {
	verbs.PD
	err error
}

func (p failingPD) Alloc(*verbs.AllocAttr) (verbs.MR, error) { return nil, p.err }

// ConnsOf returns the connections of l.
func ConnsOf(l *Loop) []*Conn { return slices.Collect(l.conns.all()) }

// OpeningConns returns how many connections of l are opening.
func OpeningConns(l *Loop) int { return l.openingConns }

// InjectDisconnected makes c handle cm.Disconnected with the error err.
func InjectDisconnected(c *Conn, err error) { c.onDisconnected(err, nil) }

// A ConnQueue is a first-in, first-out queue of connections.
type ConnQueue = connQueue

// Push, Pop and Len call push(), pop() and len() of a ConnQueue. Capacity returns the
// capacity of the queue's slice.
func Push(q *ConnQueue, c *Conn) { q.push(c) }
func Pop(q *ConnQueue) *Conn     { return q.pop() }
func Len(q *ConnQueue) int       { return q.len() }
func Capacity(q *ConnQueue) int  { return cap(q.conns) }

// CloseBudget is the number of closing connections that may take a step in one turn.
const CloseBudget = closeBudget

// PendingRequests returns how many unanswered requests the engine has.
func PendingRequests(e *Engine) int {
	e.acceptor.mu.Lock()
	defer e.acceptor.mu.Unlock()
	return len(e.acceptor.pending)
}

// Turn returns the number of the current turn of l.
func Turn(l *Loop) uint64 { return l.stats.Turns }

// SilentLimit is how long the connection of a silent peer may take to close when the
// engine stops.
const SilentLimit = silentLimit

// SetCollect makes e call collect instead of the garbage collector, which seems never to
// run by itself.
func SetCollect(e *Engine, collect func()) {
	e.heap.collect = collect
	e.heap.heap = func() (cycles, objects uint64) { return 0, 0 }
}

// EndConns makes e count n more connections that have ended. HeapReturnConns is how many ends
// are worth a collection.
func EndConns(e *Engine, n int) {
	for range n {
		e.heap.connEnded()
	}
}

const HeapReturnConns = minHeapReturn / connHeap

// AbortConns ends the connections of l without waiting for their peers.
func AbortConns(l *Loop) { l.abortConns() }

// NextKeepaliveTime returns the time at which the keepalive of c is checked next.
func NextKeepaliveTime(c *Conn) time.Duration { return c.times.keepalive.When() }

// OutstandingProbes returns the number of outstanding keepalive probes on l's
// connections.
func OutstandingProbes(l *Loop) (n uint32) {
	for c := range l.conns.all() {
		n += c.sends.flow.probes
	}
	return n
}

// ProbeBudget is the largest number of keepalive probes in one turn.
const ProbeBudget = probeBudget

// EndPendingRequest marks req as ended. If deviceRemoved is true, the reason is that the
// device of req was removed. Otherwise the reason is that the peer has withdrawn req.
func EndPendingRequest(req *ConnRequest, deviceRemoved bool) {
	req.engine.acceptor.mu.Lock()
	defer req.engine.acceptor.mu.Unlock()
	req.endedBy = byPeer
	if deviceRemoved {
		req.endedBy = byRemoval
	}
}

// FetchRequestDuringShutdown handles one event as if Shutdown was running. If there is
// no event, fetched is false.
func FetchRequestDuringShutdown(e *Engine) (fetched bool, err error) {
	e.acceptor.mu.Lock()
	e.acceptor.closing = true
	e.acceptor.mu.Unlock()
	act, err := e.acceptor.next()
	if act == nil {
		return false, err
	}
	act(e.loops[0])
	return true, nil
}

// QueryQP returns the attributes of the queue pair of c.
func QueryQP(c *Conn) (verbs.QPAttr, error) { return c.qp.Query() }

// FailListeners makes l handle the failure err of the device dev.
func FailListeners(l *Loop, dev verbs.Device, err error) { l.deviceFailed(dev, err) }

// CloseMailbox makes l refuse posted functions, like an ended loop.
func CloseMailbox(l *Loop) { l.mailbox.close() }

// PollCQ polls the CQ of c once. EmptyPolls returns the number of polls after which that
// CQ was empty.
func PollCQ(c *Conn)            { c.queue.poll() }
func EmptyPolls(c *Conn) uint64 { return c.queue.emptyPolls }

// HoldAsyncEvents makes the loop of c stop watching the device's asynchronous events.
// Only fetchDeviceEvents then fetches them.
func HoldAsyncEvents(c *Conn) {
	s := c.loop.engine.asyncSourceOf(c.device.dev)
	c.loop.recordError(c.loop.unwatch(s))
}

// SharedRecvSize returns the number of buffers of the shared receive queue of l's only
// device. It is 0 while the queue is closed.
func SharedRecvSize(l *Loop) int { return l.devices[0].sharedRecv.size }

// SharesReceives reports whether the connections of l share receive buffers.
func SharesReceives(l *Loop) bool { return l.devices[0].sharedRecv != nil }

// SharedRecvBatch is how many buffers a shared receive queue has beyond the guaranteed
// minimum of its connections.
const SharedRecvBatch = sharedRecvBatch

// StartStepped starts an engine with one loop, but no goroutine. The caller runs the
// loop as Loop.run does: first TurnsBeforeSleep, then WaitAsleep.
func StartStepped(e *Engine) (*Loop, error) {
	if err := e.markStarted(); err != nil {
		return nil, err
	}
	return e.loops[0], e.loops[0].boot()
}

// TurnsBeforeSleep runs turns until the loop has no work and is prepared to sleep.
func TurnsBeforeSleep(l *Loop) {
	for l.turn() > 0 || l.prepareSleep() {
		l.finishTurn()
	}
}

// WaitAsleep waits for an event, after TurnsBeforeSleep.
func WaitAsleep(l *Loop, limit time.Duration) { l.waitAsleep(limit) }

// FirstDevice returns the first device of the provider of e, or nil.
func FirstDevice(e *Engine) verbs.Device {
	devices, err := e.provider.Devices()
	if err != nil || len(devices) == 0 {
		return nil
	}
	return devices[0]
}

// Probe makes c post a keepalive probe.
func Probe(c *Conn) { c.probe() }

// LongBytes returns the number of bytes of memory in which l has long messages of peers.
func LongBytes(l *Loop) int { return l.longUsed }

// LongWaiting returns how many connections wait for memory of the loop.
func LongWaiting(l *Loop) (n int) {
	for e := l.longRow.turns.Front(); e != nil; e = e.Next() {
		n += e.Value.(*longPeer).waiting.Len()
	}
	return n
}

// SameLongPeer reports whether two connections belong to the same peer for the limits of
// long messages. The connections have these credentials, if they are not nil, and remote
// addresses.
func SameLongPeer(a, b *cm.Credentials, remoteA, remoteB netip.AddrPort) bool {
	conn := func(who *cm.Credentials, remote netip.AddrPort) *Conn {
		return &Conn{info: connInfo{remote: remote, credentials: who}}
	}
	return longPeerOf(conn(a, remoteA)) == longPeerOf(conn(b, remoteB))
}

// LongNext returns the connection that waits first for memory of the loop.
func LongNext(l *Loop) *Conn {
	return l.longRow.turns.Front().Value.(*longPeer).waiting.Front().Value.(*Conn)
}

// ReadsLong reports whether the connection has memory for a long message.
func ReadsLong(c *Conn) bool { return c.long.memory.used > 0 }

// FirstControlImm is the immediate data of the first control messages of a connection.
const FirstControlImm = longmsg.FirstImm

// LongWindow is how many messages a peer may send after the beginning of the oldest long
// message that the receiver still needs, including this one.
const LongWindow = longWindow

// SendControl sends b as a control message for long messages, even if b is not valid.
func SendControl(c *Conn, b []byte) {
	wr, r := c.stage(verbs.OpSendImm)
	c.sends.flow.internal++
	wr.Imm = c.long.send.imm
	r.kind = requestControl
	wr.Inline, wr.Flags = c.sends.batch.copyBytes(b), wr.Flags|verbs.SendInline
}

// A Segment is a segment of an announcement.
type Segment struct {
	Remote Remote
	Length uint32
}

// Announcement returns an encoded announcement.
func Announcement(segments ...Segment) []byte {
	m := longmsg.Control{Kind: longmsg.Announce}
	for _, s := range segments {
		m.Add(longmsg.Segment{Addr: s.Remote.Addr, RKey: s.Remote.RKey, Length: s.Length})
	}
	return m.AppendTo(nil)
}

// AgreesOnLong reports whether long messages are enabled on c.
func AgreesOnLong(c *Conn) bool { return c.long != nil }

// IgnoreWindow makes c forget its outstanding long messages. Then c can send more
// messages than the peer has to keep; see LongWindow.
func IgnoreWindow(c *Conn) { c.long.send.announced = c.long.send.done }

// LongReads returns the number of outstanding READs of long messages on c.
func LongReads(c *Conn) int { return c.long.receive.outstanding() }

// Arm prepares the loop for a wait, without a turn before.
func Arm(l *Loop) (busy bool, err error) { return l.arm() }

// RecordError records an error that no callback reports.
func RecordError(l *Loop, err error) { l.recordError(err) }

// HeldMessages returns how many messages of c wait because receiving is paused, or behind a
// long message.
func HeldMessages(c *Conn) int { return c.recvs.heldCount() }

// UsedBuffers returns how many buffers of l are not free.
func UsedBuffers(l *Loop) (n int) {
	for _, d := range l.devices {
		for b := range d.pool.All() {
			if b.state != bufferFree {
				n++
			}
		}
	}
	return n
}

// OpenDevice makes a loop use a device, as its first connection on the device does.
func OpenDevice(l *Loop, dev verbs.Device) error {
	_, err := l.device(dev)
	return err
}

type LongMessageError = longMessageError
