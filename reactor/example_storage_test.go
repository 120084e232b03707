package reactor_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	blockSize = 4096
	numBlocks = 100
)

// This example has the code of docs/storage.md. A server has an arena of blocks. A client,
// whose loop runs in an event loop of its own, writes all blocks to it as they come from a
// disk, and reads the last one.
func Example_storage() {
	memory := make([]byte, numBlocks*blockSize) // A program can also use mapped memory.
	server := &blockServer{}
	engine, end := run(server)
	defer end()
	var err error
	server.arena, err = engine.Register(memory, verbs.AccessRemoteRead|verbs.AccessRemoteWrite|verbs.AccessLocalWrite)
	check(err)
	listener, err := engine.Listen(loopback, nil)
	check(err)

	device, err := soft.Open(nil)
	check(err)
	defer device.Close()
	client := &blockClient{}
	loop, err := reactor.NewLoop(device, client, nil)
	check(err)
	client.memory, err = loop.Engine().Alloc(numBlocks*blockSize, verbs.AccessLocalWrite)
	check(err)
	client.disk = startDisk(client.memory.Bytes())
	defer client.disk.close()
	check(loop.Engine().Dial(listener.Addr(), nil))
	runLoop(loop, client.disk, client.onDisk)
	// Output: block 99
}

// A blockServer has an arena of blocks, which all clients can use.
type blockServer struct {
	reactor.BaseHandler
	arena *reactor.Region
}

// OnConnectRequest tells the client where the arena is.
func (s *blockServer) OnConnectRequest(req *reactor.ConnRequest) {
	at, err := s.arena.Remote(req.Device(), 0, len(s.arena.Bytes()))
	check(err)
	key, err := at.AppendBinary(nil)
	check(err)
	check(req.Accept(&reactor.AcceptOptions{PrivateData: key}))
}

// A disk has a pipe with a byte for each block that was loaded. A program with io_uring has
// an eventfd instead.
type disk struct{ loaded, done *os.File }

// startDisk loads blocks into memory, on another goroutine.
func startDisk(memory []byte) (d disk) {
	var err error
	d.loaded, d.done, err = os.Pipe()
	check(err)
	go func() {
		for i := range numBlocks {
			copy(memory[i*blockSize:], fmt.Sprint("block ", i))
			_, err := d.done.Write([]byte{1})
			check(err)
		}
	}()
	return d
}

func (d disk) close() {
	check(d.done.Close())
	check(d.loaded.Close())
}

// A blockClient writes all blocks of a server.
type blockClient struct {
	dialer
	memory *reactor.Region
	disk   disk
	conn   *reactor.Conn
	arena  reactor.Remote // address and key of the server's arena
	loaded int            // number of blocks that have come from the disk
	next   int            // number of the next block to write
}

func (b *blockClient) OnOpen(c *reactor.Conn) {
	b.conn = c
	check(b.arena.UnmarshalBinary(c.Info().PeerPrivateData))
	b.OnWritable(c)
}

// onDisk is called when the disk has loaded blocks.
func (b *blockClient) onDisk() {
	n, err := b.disk.loaded.Read(make([]byte, numBlocks))
	check(err)
	b.loaded += n
	if b.conn != nil {
		b.OnWritable(b.conn)
	}
}

func (b *blockClient) OnWritable(c *reactor.Conn) {
	for ; b.next < b.loaded; b.next++ {
		from := reactor.Piece{Region: b.memory, Offset: b.next * blockSize, Length: blockSize}
		to := b.arena
		to.Addr += uint64(b.next * blockSize)
		last := b.next == numBlocks-1
		err := c.Write(to, &reactor.OpOptions{Quiet: !last}, from)
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // OnWritable is called when there is room
		}
		check(err)
	}
}

func (b *blockClient) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	switch {
	case err != nil:
		return // OnClose follows
	case op.Code == verbs.OpWrite:
		// All blocks have arrived at the server. So the program may change b.memory.
		clear(b.memory.Bytes())
		from := b.arena
		from.Addr += (numBlocks - 1) * blockSize
		header, data := reactor.Piece{Region: b.memory, Length: 6}, reactor.Piece{Region: b.memory, Offset: blockSize, Length: 100}
		check(c.Read(from, nil, header, data))
	default:
		memory := b.memory.Bytes()
		fmt.Printf("%s%s\n", memory[:6], strings.TrimRight(string(memory[blockSize:blockSize+100]), "\x00"))
		c.Loop().Engine().Stop()
	}
}

// runLoop is the event loop of a program, with a loop of package reactor in it. It calls
// onDisk when the disk has loaded blocks, and ends with the loop.
func runLoop(loop *reactor.Loop, disk disk, onDisk func()) {
	const loopEvent, diskEvent = 0, 1
	epoll, err := poller.New(64) // A program can also use epoll_wait(2) itself.
	check(err)
	defer epoll.Close()
	_, err = epoll.Add(loop.FD(), poller.Readable, loopEvent)
	check(err)
	_, err = epoll.Add(int(disk.loaded.Fd()), poller.Readable, diskEvent)
	check(err)
	for {
		busy, err := loop.Poll(16) // After 16 turns the program's own descriptors come next.
		if errors.Is(err, reactor.ErrClosed) {
			return
		}
		check(err)
		timeout := time.Duration(-1)
		if busy {
			timeout = 0
		}
		ready, err := epoll.Wait(timeout)
		check(err)
		for i := range ready {
			if event, ok := epoll.Event(i); ok && event.Data == diskEvent {
				onDisk()
			}
		}
	}
}
