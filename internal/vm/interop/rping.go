package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// rping is a program of librdmacm. In each round:
//
//   - The client sends the address of a buffer, and the server READs the buffer.
//   - The client sends the address of another buffer, and the server WRITEs the same data
//     to it.
//
// After each operation, the server sends a message with any contents. Source: rping(1).

// Size of a message in bytes. The message has the address, key and size of a buffer, all
// big-endian.
const rpingMessage = 16

// An rpingServer serves one client.
type rpingServer struct {
	*endpoint
	accepted bool // true if a client has been accepted
	buf      *reactor.Region
	// true after the READ; the WRITE is next
	read bool
}

func newRpingServer(s *endpoint) reactor.Handler { return &rpingServer{endpoint: s} }

// OnConnectRequest accepts the first client and rejects all others.
func (r *rpingServer) OnConnectRequest(req *reactor.ConnRequest) {
	if r.accepted {
		r.check(req.Reject(nil))
		return
	}
	r.accepted = true
	r.check(req.Accept(nil))
}

// OnOpen allocates the memory for the client's data.
func (r *rpingServer) OnOpen(c *reactor.Conn) {
	var err error
	if r.buf, err = c.Loop().Engine().Alloc(r.opts.size, verbs.AccessLocalWrite); err != nil {
		c.Abort(err)
	}
}

// OnMessage receives the address of a buffer and accesses the buffer.
func (r *rpingServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := msg.Data()
	if len(b) != rpingMessage {
		c.Abort(fmt.Errorf("a message of %d bytes", len(b)))
		return
	}
	var remote reactor.Remote
	r.check(remote.UnmarshalBinary(b))
	size := binary.BigEndian.Uint32(b[12:])
	if int64(size) > int64(r.opts.size) {
		c.Abort(fmt.Errorf("a buffer of %d bytes, the limit is %d", size, r.opts.size))
		return
	}
	if r.read {
		r.check(c.Write(remote, nil, reactor.Piece{Region: r.buf, Length: r.textLength(int(size))}))
	} else {
		r.check(c.Read(remote, nil, reactor.Piece{Region: r.buf, Length: int(size)}))
	}
	r.read = !r.read
}

// textLength returns the length of the text in bytes, with the final zero byte.
func (r *rpingServer) textLength(size int) int {
	if end := bytes.IndexByte(r.buf.Bytes()[:size], 0); end >= 0 {
		return end + 1
	}
	return size
}

// OnCompletion tells the client that the READ or WRITE has completed.
func (r *rpingServer) OnCompletion(c *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		r.check(c.Send(make([]byte, rpingMessage), nil))
	}
}

// OnClose stops the server. Every rping client ends by disconnecting, so ErrPeerClosed is
// no error.
func (r *rpingServer) OnClose(_ *reactor.Conn, err error) {
	if errors.Is(err, reactor.ErrPeerClosed) {
		err = nil
	}
	r.stop(err)
}

// An rpingClient runs as many rounds as the flag -count says.
type rpingClient struct {
	*endpoint
	source, sink *reactor.Region
	round        int
	sinkSent     bool // true after the client has sent the address for the server's WRITE
}

func newRpingClient(s *endpoint) reactor.Handler { return &rpingClient{endpoint: s} }

// OnOpen starts the first round.
func (r *rpingClient) OnOpen(c *reactor.Conn) {
	var failed [2]error
	r.source, failed[0] = c.Loop().Engine().Alloc(r.opts.size, verbs.AccessRemoteRead)
	r.sink, failed[1] = c.Loop().Engine().Alloc(r.opts.size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err := errors.Join(failed[:]...); err != nil {
		c.Abort(err)
		return
	}
	r.begin(c)
}

func (r *rpingClient) begin(c *reactor.Conn) {
	text := r.source.Bytes()
	for i := copy(text, fmt.Sprintf("rdma-ping-%d: ", r.round)); i < len(text); i++ {
		text[i] = byte('A' + (r.round+i)%('z'-'A'+1))
	}
	text[len(text)-1] = 0
	clear(r.sink.Bytes())
	r.sendAddress(c, r.source)
}

func (r *rpingClient) sendAddress(c *reactor.Conn, buf *reactor.Region) {
	at, err := buf.Remote(c.Info().Device, 0, len(buf.Bytes()))
	if err != nil {
		c.Abort(err)
		return
	}
	b, err := at.AppendBinary(make([]byte, 0, rpingMessage))
	r.check(err)
	r.check(c.Send(binary.BigEndian.AppendUint32(b, uint32(len(buf.Bytes()))), nil))
}

// OnMessage continues the round after the server's READ or WRITE.
func (r *rpingClient) OnMessage(c *reactor.Conn, _ reactor.Message) {
	if r.sinkSent = !r.sinkSent; r.sinkSent {
		r.sendAddress(c, r.sink)
		return
	}
	if !bytes.Equal(r.source.Bytes(), r.sink.Bytes()) {
		c.Abort(fmt.Errorf("round %d: %q came back as %q", r.round, r.source.Bytes(), r.sink.Bytes()))
		return
	}
	fmt.Fprintf(r.out, "ping data: %.20s\n", r.sink.Bytes())
	if r.round++; r.round == r.opts.count {
		c.Close()
		return
	}
	r.begin(c)
}

// OnClose stops the client.
func (r *rpingClient) OnClose(_ *reactor.Conn, err error) {
	if err == nil && r.round < r.opts.count {
		err = reactor.ErrPeerClosed
	}
	r.stop(err)
}
