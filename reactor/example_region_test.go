package reactor_test

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// recordSize is the size of a record of the store in bytes.
const recordSize = 8

// This example registers memory that the program has already. The server has a store of
// records. Clients READ a record, while the server's application does nothing.
func ExampleRegion() {
	records := []byte("apples  pears   cherries")
	server := &recordStore{}
	engine, end := run(server)
	defer end()
	// The connections of all loops can use this registration. The garbage collector does not
	// free or move the memory.
	var err error
	server.region, err = engine.Register(records, verbs.AccessRemoteRead)
	check(err)
	listener, err := engine.Listen(loopback, nil)
	check(err)

	reader := &recordReader{done: make(chan error, 1)}
	client, endClient := run(reader)
	defer endClient()
	reader.memory, err = client.Alloc(recordSize, verbs.AccessLocalWrite)
	check(err)
	check(client.Dial(listener.Addr(), nil))
	check(<-reader.done)

	// From now on, the keys are not valid.
	check(server.region.Close())
	// Output: record 2: cherries
}

type recordStore struct {
	reactor.BaseHandler
	region *reactor.Region
}

// OnConnectRequest sends the address and the key of the store as private data. The keys
// differ by device.
func (s *recordStore) OnConnectRequest(req *reactor.ConnRequest) {
	at, err := s.region.Remote(req.Device(), 0, len(s.region.Bytes()))
	check(err)
	key, err := at.AppendBinary(nil)
	check(err)
	check(req.Accept(&reactor.AcceptOptions{PrivateData: key}))
}

type recordReader struct {
	dialer
	memory *reactor.Region
	done   chan error
}

// OnOpen READs the record with the number 2.
func (r *recordReader) OnOpen(c *reactor.Conn) {
	var record reactor.Remote
	check(record.UnmarshalBinary(c.Info().PeerPrivateData))
	record.Addr += 2 * recordSize
	check(c.Read(record, nil, reactor.Piece{Region: r.memory, Length: recordSize}))
}

// OnCompletion prints the record. The memory belongs to the application again.
func (r *recordReader) OnCompletion(c *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		fmt.Printf("record 2: %s\n", r.memory.Bytes())
		c.Close()
	}
}

func (r *recordReader) OnClose(_ *reactor.Conn, err error) { r.done <- err }
