package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// rping, of librdmacm's examples. In each round the client names a buffer, which
// the server READs; then the client names another, to which the server WRITEs
// what it has read. After each of the two the server sends a message without
// meaning. See rping(1).

// rpingMessage is the size of every message: address, key and size of a buffer,
// big endian.
const rpingMessage = 16

// An rpingServer serves one client.
type rpingServer struct {
	*side
	taken bool // the client is there
	buf   verbs.MR
	full  bool // buf has been read, and is to be written
}

func newRpingServer(s *side) reactor.Handler { return &rpingServer{side: s} }

// OnConnectRequest lets the first in.
func (r *rpingServer) OnConnectRequest(req *reactor.ConnRequest) {
	if r.taken {
		r.must(req.Reject(nil))
		return
	}
	r.taken = true
	r.must(req.Accept(nil))
}

// OnOpen makes the place for the client's data.
func (r *rpingServer) OnOpen(c *reactor.Conn) {
	var err error
	if r.buf, err = c.Loop().Alloc(r.opts.size, verbs.AccessLocalWrite); err != nil {
		c.Abort(err)
	}
}

// OnMessage gets the name of a buffer.
func (r *rpingServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := msg.Data()
	if len(b) != rpingMessage {
		c.Abort(fmt.Errorf("a message of %d bytes", len(b)))
		return
	}
	var remote reactor.Remote
	r.must(remote.UnmarshalBinary(b))
	size := binary.BigEndian.Uint32(b[12:])
	if int64(size) > int64(r.opts.size) {
		c.Abort(fmt.Errorf("a buffer of %d bytes, here are %d", size, r.opts.size))
		return
	}
	if r.full {
		r.must(c.Write(verbs.SGEOf(r.buf, 0, r.textLength(int(size))), remote, reactor.SendOptions{}))
	} else {
		r.must(c.Read(verbs.SGEOf(r.buf, 0, int(size)), remote, reactor.SendOptions{}))
	}
	r.full = !r.full
}

// textLength is the length of the text in the buffer, with the zero at its end.
func (r *rpingServer) textLength(size int) int {
	if end := bytes.IndexByte(r.buf.Bytes()[:size], 0); end >= 0 {
		return end + 1
	}
	return size
}

// OnCompletion lets the client go on.
func (r *rpingServer) OnCompletion(c *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		r.must(c.Send(make([]byte, rpingMessage)))
	}
}

// OnClose ends the server: an rping client just disconnects.
func (r *rpingServer) OnClose(_ *reactor.Conn, err error) {
	if errors.Is(err, reactor.ErrPeerClosed) {
		err = nil
	}
	r.end(err)
}

// An rpingClient plays count rounds.
type rpingClient struct {
	*side
	source, sink verbs.MR
	round        int
	written      bool // the server is about to write to sink
}

func newRpingClient(s *side) reactor.Handler { return &rpingClient{side: s} }

// OnOpen begins the first round.
func (r *rpingClient) OnOpen(c *reactor.Conn) {
	var failed [2]error
	r.source, failed[0] = c.Loop().Alloc(r.opts.size, verbs.AccessRemoteRead)
	r.sink, failed[1] = c.Loop().Alloc(r.opts.size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
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
	r.name(c, r.source)
}

func (r *rpingClient) name(c *reactor.Conn, mr verbs.MR) {
	b := make([]byte, 0, rpingMessage)
	b = binary.BigEndian.AppendUint64(b, mr.Addr())
	b = binary.BigEndian.AppendUint32(b, mr.RKey())
	b = binary.BigEndian.AppendUint32(b, uint32(len(mr.Bytes())))
	r.must(c.Send(b))
}

// OnMessage says that the server has done its part.
func (r *rpingClient) OnMessage(c *reactor.Conn, _ reactor.Message) {
	if r.written = !r.written; r.written {
		r.name(c, r.sink)
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

// OnClose ends the client.
func (r *rpingClient) OnClose(_ *reactor.Conn, err error) {
	if err == nil && r.round < r.opts.count {
		err = reactor.ErrPeerClosed
	}
	r.end(err)
}
