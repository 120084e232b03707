package main

// maxCacheLine is the largest message in bytes that the peer cacheline measures. A
// larger message needs more than two cache lines, and is measured by the peer memcpy.
const maxCacheLine = 64

// cacheLinePeer returns a peer that gives a lower bound for small messages on the local
// path. It uses shared memory without a library.
func cacheLinePeer() *peer {
	return &peer{
		name:     "cacheline",
		variants: []variant{{"memory", "busy"}},
		fits:     func(c Case) bool { return c.Workload == workPingPong && c.Size <= maxCacheLine },
		serve:    serveMemory,
		connect:  connectMemory,
	}
}

// A sharedMemory has one cell for each direction.
type sharedMemory struct {
	*sharedFile
	spinner
	request  cell
	response cell
	served   uint64 // Number of the last answered message.
}

func newSharedMemory(f *sharedFile, err error, message int) (*sharedMemory, error) {
	if err != nil {
		return nil, err
	}
	both := f.cells(0, 2, message)
	return &sharedMemory{sharedFile: f, request: both[0], response: both[1]}, nil
}

func serveMemory(s *spec) (server, error) {
	f, err := makeShared(2 * cellSize(s.Size))
	m, err := newSharedMemory(f, err, s.Size)
	if err != nil {
		return nil, err
	}
	m.run(m.serve)
	return m, nil
}

// Addr returns the name of the file.
func (m *sharedMemory) Addr() string { return m.file.Name() }

// Close ends the goroutine that answers messages, and closes the file.
func (m *sharedMemory) Close() error {
	m.end()
	return m.file.Close()
}

// serve answers the next message if it has arrived.
func (m *sharedMemory) serve() {
	if m.request.count.Load() == m.served {
		return
	}
	m.served++
	copy(m.response.bytes, m.request.bytes)
	m.response.count.Store(m.served)
}

func connectMemory(s *spec) (client, error) {
	f, err := openShared(s.Server, 2*cellSize(s.Size))
	m, err := newSharedMemory(f, err, s.Size)
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
