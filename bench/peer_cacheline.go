package main

import (
	"os"
	"sync/atomic"
)

// cacheLinePeer returns the peer that gives a lower bound for the local path. It uses
// shared memory without a library.
func cacheLinePeer() *peer {
	return &peer{
		name:     "cacheline",
		variants: []variant{{"memory", "busy"}},
		fits:     func(c Case) bool { return c.Workload == workPingPong },
		serve:    serveMemory,
		connect:  connectMemory,
	}
}

// A cell transfers messages in one direction. A small message and its sequence number
// are in one cache line, so only one cache line is transferred.
type cell struct {
	count *atomic.Uint64
	bytes []byte
}

// cellSize is the distance in bytes between cells. It is a multiple of 128, because some
// processors fetch cache lines of 64 bytes in pairs.
func cellSize(message int) int {
	const apart, counter = 128, 8
	return (counter + message + apart - 1) / apart * apart
}

// A sharedMemory is a file with one cell for each direction. Both processes map it.
type sharedMemory struct {
	file     *os.File
	request  cell
	response cell
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

// Addr returns the name of the file.
func (m *sharedMemory) Addr() string { return m.file.Name() }

// Close ends the goroutine that answers messages. Then it closes the file.
func (m *sharedMemory) Close() error {
	m.stop.Store(true)
	<-m.finished
	return m.file.Close()
}

func (m *sharedMemory) serve() {
	defer close(m.finished)
	for n := uint64(1); ; n++ {
		for m.request.count.Load() != n {
			if m.stop.Load() {
				return
			}
		}
		copy(m.response.bytes, m.request.bytes)
		m.response.count.Store(n)
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

// A memoryCaller implements caller on shared memory.
type memoryCaller struct {
	*sharedMemory
	message []byte
}

func (m *memoryCaller) roundTrip(n uint64) error {
	copy(m.request.bytes, m.message)
	m.request.count.Store(n)
	for m.response.count.Load() != n {
	}
	copy(m.message, m.response.bytes)
	return nil
}
