package pairtest_test

import (
	"encoding/binary"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	// Length in bytes of the largest WRITE and READ.
	mebibyte = 1 << 20
	// Offsets in a connection's memory. The peer reads and writes the shared area. READs
	// and atomics store their results in the sink area.
	sourceArea, sharedArea, sinkArea, recvArea = 0, mebibyte, 2 * mebibyte, 3 * mebibyte

	recvBufferSize = 64 << 10
	memorySize     = recvArea + recvBuffers*recvBufferSize
	// Receive buffers of a connection, unless a scenario needs another number.
	recvBuffers = 8
	// Work requests in each queue of a queue pair.
	depth = 32
)

// A conn is one side of a connection. For datagrams, it is the UD queue pair of one side.
type conn struct {
	p     *peer
	id    *cm.ID
	qp    verbs.QP
	mr    verbs.MR
	sends *queue
	recvs *queue
	// Number of receives posted so far. Receive i uses buffer i modulo recvBuffers.
	posted int

	// Address and key of the peer's shared memory.
	remote uint64
	rkey   uint32
}

// connParams are the parameters of one side. Both sides use the transport retry count and
// the ACK timeout of the connecting side.
type connParams struct {
	// Receive buffers posted before the connection is established.
	recvBuffers int
	// Transport retry count, as in cm.ConnParam.
	retries int
	// RNR retry count, as in cm.ConnParam. The peer uses it when this side has no receive
	// buffer.
	rnrRetries int
	// Local ACK timeout: the code c means 4.096 µs * 2^c.
	ackTimeout uint8
}

// defaultParams returns parameters with the largest retry counts. With a transport retry
// count of 7, Soft-RoCE retransmits without a limit.
func defaultParams() connParams {
	return connParams{recvBuffers: recvBuffers, retries: 7, rnrRetries: verbs.RNRRetryForever, ackTimeout: ackTimeout}
}

// Code of a local ACK timeout of 134 ms.
const ackTimeout = 15

// newConn creates the completion queues, memory and queue pair of an ID, and posts
// receives.
func (p *peer) newConn(id *cm.ID, recvs int) *conn {
	p.t.Helper()
	c := &conn{p: p, id: id, sends: p.newQueue(2 * depth), recvs: p.newQueue(2 * depth)}
	var err error
	c.mr, err = p.pd.Alloc(&verbs.AllocAttr{Size: memorySize, Access: verbs.AccessAll})
	p.NoError(err)
	closeAtCleanup(p.t, c.mr)
	p.NoError(id.CreateQP(p.pd, &verbs.QPInitAttr{
		Type: id.PortSpace().QPType(), SendCQ: c.sends.cq, RecvCQ: c.recvs.cq,
		Caps: verbs.QPCaps{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1},
	}))
	p.t.Cleanup(func() { p.NoError(id.CloseQP()) })
	c.qp = id.QP()
	for range recvs {
		c.postRecv()
	}
	return c
}

// connect connects to the peer and waits until the connection is established.
func (p *peer) connect(params connParams) *conn {
	p.t.Helper()
	c := p.newConn(p.resolve(cm.TCP, p.remoteAddr.Port(), params.ackTimeout), params.recvBuffers)
	p.NoError(c.id.Connect(&cm.ConnParam{
		PrivateData: c.memoryDescriptor(), ResponderResources: 4, InitiatorDepth: 4, RetryCount: params.retries, RNRRetryCount: params.rnrRetries,
	}))
	c.readDescriptor(p.await(c.id, cm.Established))
	return c
}

// accept accepts a request from connect() and waits until the connection is established.
func (p *peer) accept(params connParams) *conn {
	p.t.Helper()
	ev := p.awaitMarkedRequest(descriptorMark)
	c := p.newConn(ev.id, params.recvBuffers)
	c.readDescriptor(ev)
	p.NoError(c.id.Accept(&cm.ConnParam{
		PrivateData: c.memoryDescriptor(), ResponderResources: 4, InitiatorDepth: 4, RNRRetryCount: params.rnrRetries,
	}))
	p.await(c.id, cm.Established)
	return c
}

// First byte of a memory descriptor. Other private data begins with another byte.
const descriptorMark = 0xca

// memoryDescriptor encodes the address and the key of this side's shared memory. Each
// side sends it to the other as private data.
func (c *conn) memoryDescriptor() []byte {
	b := binary.BigEndian.AppendUint64([]byte{descriptorMark}, c.mr.Addr()+sharedArea)
	return binary.BigEndian.AppendUint32(b, c.mr.RKey())
}

// readDescriptor stores the peer's memory descriptor.
func (c *conn) readDescriptor(ev event) {
	b := ev.param.PrivateData
	c.p.GreaterOrEqual(len(b), 13)
	c.remote, c.rkey = binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint32(b[9:])
}

func (c *conn) bytes(offset, length int) []byte { return c.mr.Bytes()[offset : offset+length] }

func (c *conn) uint64At(offset int) uint64 { return binary.NativeEndian.Uint64(c.bytes(offset, 8)) }

func (c *conn) setUint64(offset int, n uint64) {
	binary.NativeEndian.PutUint64(c.bytes(offset, 8), n)
}

// recvOffset returns the offset of the buffer of receive i.
func recvOffset(i int) int { return recvArea + i%recvBuffers*recvBufferSize }

// postRecv posts the next receive. Its id is its number, counted from 0.
func (c *conn) postRecv() {
	c.p.t.Helper()
	_, err := c.qp.PostRecv([]verbs.RecvWR{{
		ID: uint64(c.posted), SGEs: []verbs.SGE{verbs.SGEOf(c.mr, recvOffset(c.posted), recvBufferSize)},
	}})
	c.p.NoError(err)
	c.posted++
}

// newWR returns a signaled work request with a local buffer.
func (c *conn) newWR(op verbs.Opcode, offset, length int) verbs.SendWR {
	return verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(c.mr, offset, length)}}
}

// withRemote returns a copy of wr with an address in the peer's shared memory.
func (c *conn) withRemote(wr verbs.SendWR, offset int) verbs.SendWR {
	wr.RemoteAddr, wr.RKey = c.remote+uint64(offset), c.rkey
	return wr
}

func (c *conn) post(wrs ...verbs.SendWR) {
	c.p.t.Helper()
	for i := range wrs {
		wrs[i].ID = uint64(i)
	}
	n, err := c.qp.PostSend(wrs)
	c.p.NoError(err)
	c.p.Equal(len(wrs), n)
}

// signal sends an empty message, which waitForSignal receives.
func (c *conn) signal() {
	c.p.t.Helper()
	c.post(c.newWR(verbs.OpSend, sourceArea, 0))
	c.sends.takeOne()
}

func (c *conn) waitForSignal() {
	c.p.t.Helper()
	c.p.Zero(c.recvs.takeOne().ByteLen)
}

// signalAndAwaitDisconnect sends an empty message, and the peer then disconnects. If the
// ACK is lost, the message may be flushed.
func (c *conn) signalAndAwaitDisconnect() {
	c.p.t.Helper()
	c.post(c.newWR(verbs.OpSend, sourceArea, 0))
	c.awaitDisconnect()
	c.p.waitUntil("the completion of the last message", func() bool { return len(c.sends.wcs) > 0 })
	c.p.Contains([]verbs.Status{verbs.StatusSuccess, verbs.StatusWRFlushErr}, c.sends.wcs[0].Status)
}

// disconnect ends the connection. The queue pair enters the error state.
func (c *conn) disconnect() {
	c.p.t.Helper()
	c.p.NoError(c.id.Disconnect(nil))
	c.p.await(c.id, cm.Disconnected)
	c.p.Equal(verbs.StateError, c.qp.State())
}

// awaitDisconnect waits until the peer has disconnected. Then it disconnects this side.
func (c *conn) awaitDisconnect() {
	c.p.t.Helper()
	c.p.await(c.id, cm.Disconnected)
	c.p.NoError(c.id.Disconnect(nil))
	c.p.Equal(verbs.StateError, c.qp.State())
}

func withPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}
