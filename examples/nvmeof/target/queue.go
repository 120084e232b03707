package target

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Errors that end the connection of a queue.
var (
	errShortCapsule = errors.New("nvmeof: a capsule is shorter than a command")
	errTooMany      = errors.New("nvmeof: more commands in flight than the queue has places")
	errKeepAlive    = errors.New("nvmeof: no command before the keep alive timeout")
	errNoMemory     = errors.New("nvmeof: no memory to keep a capsule")
	errAdminEnded   = errors.New("nvmeof: the admin queue has ended")
)

// connectTime is the time from the connection to the Connect command. A host opens all
// connections before it sends the first Connect command of an I/O queue. Arbitrary.
const connectTime = 30 * time.Second

// A queue is a connection of a host: the admin queue of a controller or one of its I/O
// queues. Its fields belong to the loop of the connection.
type queue struct {
	target *Target
	loop   *loop
	conn   *reactor.Conn
	id     uint16 // identifier of the queue; 0 for the admin queue
	// controller is nil until the Connect command has succeeded.
	controller *controller
	// ended is true from OnClose on. Workers read it.
	ended atomic.Bool

	size       int // number of commands that the host may have in flight
	unanswered int // number of commands that have no response yet
	// commands has more than size places: a command whose response is sent keeps its
	// place until the WRITE of its data has completed, and the host may send another one
	// before that.
	commands []command
	free     list
	needRead list
	needSend list
	reads    int // number of READs in flight

	head          uint16 // number of answered commands, modulo size
	noFlowControl bool   // the host does not want to know the head
	noInvalidate  bool   // the device can not send messages that make a key invalid
}

// newQueue returns a queue for size commands.
func newQueue(t *Target, id uint16, size int) *queue {
	// Each command whose WRITE is outstanding has two places in the send queue.
	q := &queue{target: t, id: id, size: size, commands: make([]command, size+maxInFlight/2+1)}
	for i := range q.commands {
		q.commands[i].queue, q.commands[i].index = q, i
		q.free.push(&q.commands[i])
	}
	return q
}

// open begins to serve the queue on its connection.
func (q *queue) open(c *reactor.Conn, l *loop) {
	q.conn, q.loop = c, l
	c.SetTimeout(connectTime)
}

// abort ends the connection. OnClose follows.
func (q *queue) abort(cause error) {
	// An error means that the connection is ending already.
	_ = q.conn.Abort(cause)
}

// receive begins a command with the capsule in msg.
func (q *queue) receive(msg reactor.Message) {
	capsule := msg.Data()
	if len(capsule) < nvme.CommandSize {
		q.abort(errShortCapsule)
		return
	}
	if q.unanswered == q.size {
		q.abort(errTooMany)
		return
	}
	q.unanswered++
	c := q.free.pop()
	q.loop.commands++
	copy(c.bytes[:], capsule)
	if q.controller != nil {
		q.controller.heard(q.loop.loop.Now())
	}
	n, status := q.plan(c)
	if status == nvme.Success && c.dir != noData {
		status = q.locate(c, n, msg)
	}
	if status != nvme.Success {
		c.dir, c.status = noData, status
		q.answer(c)
		return
	}
	q.begin(c, n)
}

// plan decodes the command. It sets the fields work, usesDisk and dir, and returns the
// length of the command's data.
func (q *queue) plan(c *command) (n int, status nvme.Status) {
	cmd := c.sqe()
	switch {
	case !cmd.ValidFlags():
		return 0, nvme.InvalidField.Final()
	case cmd.Opcode() == nvme.Fabrics:
		return q.planFabrics(c)
	case q.controller == nil:
		// The first command of a queue must be Connect. The kernel's target gives the same
		// answer.
		return 0, nvme.InvalidOpcode.Final()
	case !q.controller.ready.Load():
		return 0, nvme.SequenceError.Final()
	case q.id == 0:
		return q.planAdmin(c)
	}
	return q.planIO(c)
}

// locate checks the descriptor of the command's data, of n bytes. If the data is in the
// capsule, locate keeps the capsule.
func (q *queue) locate(c *command, n int, msg reactor.Message) nvme.Status {
	sgl := c.sqe().SGL()
	switch {
	case sgl.Keyed():
		if uint64(sgl.Len()) != uint64(n) {
			return nvme.DataLengthInvalid.Final()
		}
		if n > 0 && sgl.Kind() == nvme.SGLKeyedInvalidate {
			c.invalidate = sgl.Key()
		}
		return nvme.Success
	case sgl.Kind() != nvme.SGLInCapsule:
		return nvme.InvalidSGLType.Final()
	case c.dir != fromHost || q.id == 0 && c.sqe().Opcode() != nvme.Fabrics:
		return nvme.InvalidField.Final()
	case uint64(sgl.Len()) != uint64(n):
		return nvme.DataLengthInvalid.Final()
	}
	// The data must be in the bytes that have arrived. The rest of the receive buffer has
	// bytes of an older message.
	room := uint64(len(msg.Data()) - nvme.CommandSize)
	if sgl.Offset() > room || uint64(n) > room-sgl.Offset() {
		return nvme.InvalidSGLOffset.Final()
	}
	if c.kept = msg.Keep(); c.kept == nil {
		q.abort(errNoMemory)
		return nvme.InternalError
	}
	at := nvme.CommandSize + int(sgl.Offset())
	c.data = c.kept.Bytes()[at : at+n]
	return nvme.Success
}

// begin continues a command whose fields are checked. It has n bytes of data.
func (q *queue) begin(c *command, n int) {
	if c.changesDisk {
		c.order = q.controller.writes.begin()
	}
	if n == 0 || c.kept != nil {
		q.loop.execute(c)
		return
	}
	if q.loop.needMemory.empty() && q.takeMemory(c) {
		q.withMemory(c)
		return
	}
	c.state = commandNeedsMemory
	q.loop.needMemory.push(c)
}

// takeMemory takes memory for the data of the command from the pool, if there is some.
func (q *queue) takeMemory(c *command) bool {
	n := int(c.sqe().SGL().Len())
	m, ok := q.loop.pool.get(n)
	if ok {
		c.buffer, c.data = m, q.loop.pool.bytes(m, n)
	}
	return ok
}

// withMemory continues a command that has memory for its data.
func (q *queue) withMemory(c *command) {
	if c.dir == toHost {
		q.loop.execute(c)
		return
	}
	c.state = commandNeedsRead
	q.needRead.push(c)
	q.startReads()
}

// startReads fetches data from the host, for as many commands as the connection can read
// at a time. A further READ would hold up the responses behind it.
func (q *queue) startReads() {
	for c := q.needRead.first; c != nil && q.reads < int(q.conn.Info().InitiatorDepth); c = q.needRead.first {
		err := q.conn.Read(c.remote(), &reactor.OpOptions{Tag: uint64(c.index)}, c.piece())
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // OnWritable follows
		}
		if err != nil {
			q.abort(err)
			return
		}
		q.needRead.pop()
		c.state = commandReading
		q.reads++
	}
}

// piece returns the memory of the command's data in the pool.
func (c *command) piece() reactor.Piece { return c.queue.loop.pool.piece(c.buffer, len(c.data)) }

// remote returns the memory of the command's data at the host.
func (c *command) remote() reactor.Remote {
	sgl := c.sqe().SGL()
	return reactor.Remote{Addr: sgl.Addr(), RKey: sgl.Key()}
}

// answer sends the data and the response of a command that is executed.
func (q *queue) answer(c *command) {
	c.state = commandAnswering
	if !q.needSend.empty() || !q.send(c) {
		q.needSend.push(c)
	}
}

// send sends the data and the response, and releases the command. It returns false if
// the connection can not send both now. The host finds the data in its memory when it gets
// the response, because a queue pair executes a SEND after an earlier WRITE.
func (q *queue) send(c *command) bool {
	if !q.sent(q.conn.CheckRoom(2)) {
		return false
	}
	hasData := c.dir == toHost && c.status == nvme.Success
	if hasData && !q.sent(q.conn.Write(c.remote(), &reactor.OpOptions{Tag: uint64(c.index)}, c.piece())) {
		return false
	}
	if !q.sent(q.respond(c)) {
		return false
	}
	q.unanswered--
	q.countAnswer()
	if hasData {
		c.state = commandWriting // OnCompletion of the WRITE follows
		return true
	}
	q.release(c)
	return true
}

// respond sends the response. If the host has asked for it, the response also makes the
// key of the command's data invalid, which saves the host an operation. A device without
// such messages sends a plain response, and the host makes the key invalid itself.
func (q *queue) respond(c *command) error {
	o := reactor.OpOptions{Invalidate: c.invalidate}
	if q.noInvalidate {
		o.Invalidate = 0
	}
	err := q.conn.Send(q.response(c), &o)
	if o.Invalidate != 0 && errors.Is(err, verbs.ErrNotSupported) {
		q.noInvalidate = true
		return q.conn.Send(q.response(c), nil)
	}
	return err
}

// sent reports whether an operation was accepted. If the connection has failed, OnClose
// releases the command.
func (q *queue) sent(err error) bool {
	if err != nil && !errors.Is(err, reactor.ErrWouldBlock) {
		q.abort(err)
	}
	return err == nil
}

// response returns the bytes of the command's response, which are valid until the next
// call.
func (q *queue) response(c *command) []byte {
	r := nvme.Response{Result: c.result, SQHead: q.nextHead(), SQID: q.id, Command: c.sqe().ID(), Status: c.status}
	b, _ := r.AppendBinary(q.loop.scratch[:0])
	return b
}

// nextHead returns the head of the submission queue after the next response.
func (q *queue) nextHead() uint16 {
	if q.noFlowControl {
		return 0xFFFF
	}
	return uint16((int(q.head) + 1) % q.size)
}

func (q *queue) countAnswer() { q.head = uint16((int(q.head) + 1) % q.size) }

// completed continues a command whose READ or WRITE has ended.
func (q *queue) completed(index uint64, err error) {
	c := &q.commands[index]
	switch c.state {
	case commandReading:
		q.reads--
		if err != nil {
			q.release(c) // No response is sent, because the connection ends.
			return
		}
		q.loop.execute(c)
		q.startReads()
	case commandWriting:
		q.release(c)
	}
}

// writable continues the commands that wait for the connection.
func (q *queue) writable() {
	for c := q.needSend.pop(); c != nil; c = q.needSend.pop() {
		if !q.send(c) {
			q.needSend.pushFront(c)
			break
		}
	}
	q.startReads()
}

// release returns the memory and the place of a command.
func (q *queue) release(c *command) {
	if c.order != nil {
		q.controller.writes.end(c.order)
	}
	if c.kept != nil {
		// An error means that the loop has ended, with all its buffers.
		_ = c.kept.Release()
	}
	held := c.buffer.held
	if held {
		q.loop.pool.put(c.buffer)
	}
	c.reset()
	q.free.push(c)
	q.loop.commands--
	if held {
		q.loop.serveMemory()
	}
}

// end releases the commands of a queue whose connection has ended. Those that are with a
// worker are released when the worker returns them.
func (q *queue) end(cause error) {
	q.ended.Store(true)
	if log := q.target.cfg.Log; log != nil {
		log.Info("queue ended", "host", q.conn.Info().RemoteAddr, "queue", q.id, "cause", cause)
	}
	// The commands that wait for memory come first: release gives memory to those that wait.
	q.loop.needMemory.removeQueue(q, q.release)
	q.needRead.removeQueue(q, q.release)
	q.needSend.removeQueue(q, q.release)
	for i := range q.commands {
		if q.commands[i].state == commandHeld {
			q.release(&q.commands[i])
		}
	}
	if q.controller != nil {
		q.controller.queueEnded(q)
	}
}
