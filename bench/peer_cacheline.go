package main

import (
	"os"
	"sync/atomic"
)

// cacheLinePeer is the floor of the local path: what it takes two processors to
// hand a message over in memory that both have, with nothing around it.
func cacheLinePeer() *peer {
	return &peer{
		name:    "cacheline",
		ways:    []way{{"memory", "busy"}},
		fits:    func(c Case) bool { return c.Workload == workPingPong },
		serve:   serveMemory,
		connect: connectMemory,
	}
}

// A cell carries messages one way: a counter that says which is there, and right
// behind it, for small ones in the same cache line, the bytes.
type cell struct {
	count *atomic.Uint64
	bytes []byte
}

// cellSize keeps the cells apart, also from what a processor fetches along.
func cellSize(message int) int {
	const apart, counter = 128, 8
	return (counter + message + apart - 1) / apart * apart
}

// A sharedMemory has two cells, in a file that both processes map.
type sharedMemory struct {
	file     *os.File
	there    cell
	back     cell
	stop     atomic.Bool
	finished chan struct{}
}

func serveMemory(s *spec) (server, error) {
	m, err := makeShared(s.Size)
	if err != nil {
		return nil, err
	}
	m.finished = make(chan struct{})
	go m.serve()
	return m, nil
}

// Addr is the name of the memory.
func (m *sharedMemory) Addr() string { return m.file.Name() }

// Close ends serve.
func (m *sharedMemory) Close() error {
	m.stop.Store(true)
	<-m.finished
	return m.file.Close()
}

func (m *sharedMemory) serve() {
	defer close(m.finished)
	for n := uint64(1); ; n++ {
		for m.there.count.Load() != n {
			if m.stop.Load() {
				return
			}
		}
		copy(m.back.bytes, m.there.bytes)
		m.back.count.Store(n)
	}
}

func connectMemory(s *spec) (client, error) {
	m, err := openShared(s.Server, s.Size)
	if err != nil {
		return nil, err
	}
	b := newBlockingClient(s)
	b.connect = func() (caller, error) { return &memoryCaller{m, make([]byte, s.Size)}, nil }
	return b, nil
}

// A memoryCaller is the client's end.
type memoryCaller struct {
	*sharedMemory
	message []byte
}

func (m *memoryCaller) roundTrip(n uint64) error {
	copy(m.there.bytes, m.message)
	m.there.count.Store(n)
	for m.back.count.Load() != n {
	}
	copy(m.message, m.back.bytes)
	return nil
}
