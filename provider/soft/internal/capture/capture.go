package capture

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// interval is how often the goroutine of a Capture looks for packets. A Tap whose ring is
	// half full wakes it earlier. Arbitrary.
	interval = 10 * time.Millisecond
	// writeBytes is the number of bytes after which blocks are written to the file. Arbitrary.
	writeBytes = 256 << 10
)

// A File is what a Capture is written to: an *os.File.
type File interface {
	io.WriteCloser
	Truncate(size int64) error
}

// A Config configures a Capture. All fields must be set.
type Config struct {
	SnapLen int // largest number of bytes of a packet in the file, from its IP header
	Buffer  int // size in bytes of the ring of each Tap; a power of two
	// OnDrop is called when packets were dropped, but not for each of them.
	OnDrop func()
	// OnError is called once, if the file can not be written any more.
	OnError func(error)
}

// A Capture is a file with packets. Any goroutine may call its methods.
type Capture struct {
	Config
	wake      chan struct{} // receives a value when a ring is half full
	stop      chan struct{}
	done      chan struct{} // closed when the goroutine has ended
	closeOnce sync.Once
	failed    atomic.Bool   // true after an error of the file; nothing is written any more
	lost      atomic.Uint64 // packets that were in a ring, and could not be written

	mu   sync.Mutex
	taps []*Tap

	// The fields below belong to the goroutine.
	file     File
	size     int64  // number of bytes in the file, all of whole blocks
	out      []byte // blocks that are written next
	reported uint64 // number of dropped packets for which OnDrop was called
}

// New begins a capture in an empty file, and starts its goroutine. The Capture then owns the
// file. If the file can not be written, New returns the error, and the caller owns the file.
func New(file File, cfg Config) (*Capture, error) {
	c := &Capture{
		Config: cfg, file: file,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	header := appendHeader(nil, cfg.SnapLen)
	if _, err := file.Write(header); err != nil {
		return nil, err
	}
	c.size = int64(len(header))
	go c.run()
	return c, nil
}

// NewTap returns a Tap that one goroutine at a time may use. On a nil Capture it returns nil.
func (c *Capture) NewTap() *Tap { return c.addTap(nil) }

// NewSharedTap returns a Tap that any goroutine may use. It takes a lock. On a nil Capture it
// returns nil.
func (c *Capture) NewSharedTap() *Tap { return c.addTap(new(sync.Mutex)) }

func (c *Capture) addTap(lock *sync.Mutex) *Tap {
	if c == nil {
		return nil
	}
	t := &Tap{capture: c, lock: lock, ring: ring{buf: make([]byte, c.Buffer)}}
	c.mu.Lock()
	c.taps = append(c.taps, t)
	c.mu.Unlock()
	return t
}

// allTaps returns the taps. The list is only appended to, so its elements may be read without
// the lock.
func (c *Capture) allTaps() []*Tap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taps
}

// Dropped returns the number of packets that are missing in the file. On a nil Capture it
// returns 0.
func (c *Capture) Dropped() (n uint64) {
	if c == nil {
		return 0
	}
	n = c.lost.Load()
	for _, t := range c.allTaps() {
		for i := range t.dropped {
			n += t.dropped[i].Load()
		}
	}
	return n
}

// Close writes what the taps have, closes the file, and gives back the memory of the taps, which
// must not be used any more. A second call, and a call on a nil Capture, do nothing.
func (c *Capture) Close() {
	if c == nil {
		return
	}
	c.closeOnce.Do(func() {
		close(c.stop)
		<-c.done
		for _, t := range c.allTaps() {
			t.ring.buf = nil // The program may keep a closed device, for its counters.
		}
	})
}

// run is the goroutine of a Capture.
func (c *Capture) run() {
	defer close(c.done)
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-c.wake:
			c.drain()
		case <-ticks.C:
			c.drain()
		case <-c.stop:
			c.drain()
			c.finish()
			return
		}
	}
}

// drain writes the blocks that are in the rings now, in the order of their times.
func (c *Capture) drain() {
	taps := c.allTaps()
	for _, t := range taps {
		t.ring.until = t.ring.filled.Load()
	}
	for {
		var oldest *Tap
		var first, head [packetHead]byte
		for _, t := range taps {
			if t.ring.head(&head) && (oldest == nil || timeOf(head[:]) < timeOf(first[:])) {
				oldest, first = t, head
			}
		}
		if oldest == nil {
			break
		}
		if c.out = oldest.ring.take(c.out, sizeOf(first[:])); len(c.out) >= writeBytes {
			c.write()
		}
	}
	c.write()
	if dropped := c.Dropped(); dropped > c.reported {
		c.reported = dropped
		c.OnDrop()
	}
}

// write writes c.out to the file. After an error it counts the packets that are lost.
func (c *Capture) write() {
	n, err := 0, error(nil)
	failed := c.failed.Load()
	if !failed && len(c.out) > 0 {
		n, err = c.file.Write(c.out)
	}
	if err != nil || failed {
		whole, lost := wholeBlocks(c.out, n)
		c.lost.Add(lost)
		if whole < n {
			// A reader would stop at a part of a block. If the file stays as it is, the reader
			// still has the blocks before it.
			_ = c.file.Truncate(c.size + int64(whole))
		}
		n = whole
	}
	c.size += int64(n)
	c.out = c.out[:0]
	if err != nil {
		c.fail(err)
	}
}

// fail ends the capture after an error of the file.
func (c *Capture) fail(err error) {
	if !c.failed.Swap(true) {
		c.OnError(err)
	}
}

// finish writes the statistics, and closes the file.
func (c *Capture) finish() {
	for i := range interfaces {
		var packets, dropped uint64
		for _, t := range c.allTaps() {
			packets += t.packets[i].Load()
			dropped += t.dropped[i].Load()
		}
		c.out = appendStats(c.out, i, time.Now(), packets, dropped)
	}
	c.write()
	if err := c.file.Close(); err != nil {
		c.fail(err)
	}
}
