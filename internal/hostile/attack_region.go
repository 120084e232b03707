//go:build linux

package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A longSender is a client whose long messages are in Regions, which the server maps.
type longSender struct {
	reactor.BaseHandler
	node
	opened chan *reactor.Conn
	// results of sendFrom, and the errors of connections
	done chan error
}

// newLongSender connects to the server.
func newLongSender(a *attacker) (*longSender, *reactor.Conn, error) {
	l := &longSender{opened: make(chan *reactor.Conn, 1), done: make(chan error, 64)}
	s := a.spec
	s.MaxLongMessage = LongMessage
	if err := l.open(&s, l); err != nil {
		return nil, nil, err
	}
	c, err := l.dial(a)
	if err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	return l, c, nil
}

func (l *longSender) dial(a *attacker) (*reactor.Conn, error) {
	if err := l.engine.Dial(a.spec.Addr, nil); err != nil {
		return nil, err
	}
	select {
	case c := <-l.opened:
		return c, nil
	case err := <-l.done:
		return nil, err
	case <-time.After(localTimeout):
		return nil, os.ErrDeadlineExceeded
	}
}

// alloc makes a Region that the server may read, and registers it.
func (l *longSender) alloc(size int) (*reactor.Region, reactor.Remote, error) {
	r, err := l.engine.Alloc(size, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, reactor.Remote{}, err
	}
	devices, err := l.device.Devices()
	if err != nil {
		return nil, reactor.Remote{}, err
	}
	at, err := r.Remote(devices[0], 0, size)
	return r, at, err
}

// sendFrom sends the beginning of a Region as a long message, and waits until the server
// has read it, or until the connection has ended.
func (l *longSender) sendFrom(c *reactor.Conn, r *reactor.Region) error {
	if err := l.startSend(c, r); err != nil {
		return err
	}
	select {
	case err := <-l.done:
		return err
	case <-time.After(localTimeout):
		return os.ErrDeadlineExceeded
	}
}

// sendWhile is sendFrom, and calls a function again and again until the message has been
// sent, once at least.
func (l *longSender) sendWhile(c *reactor.Conn, r *reactor.Region, do func()) error {
	if err := l.startSend(c, r); err != nil {
		return err
	}
	for deadline := time.Now().Add(localTimeout); time.Now().Before(deadline); {
		do()
		select {
		case err := <-l.done:
			return err
		default:
		}
	}
	return os.ErrDeadlineExceeded
}

func (l *longSender) startSend(c *reactor.Conn, r *reactor.Region) error {
	return l.onLoop(func() {
		if err := c.SendV(nil, reactor.Piece{Region: r, Length: LongMessage}); err != nil {
			l.done <- err
		}
	})
}

func (l *longSender) OnOpen(c *reactor.Conn)                                { l.opened <- c }
func (l *longSender) OnCompletion(_ *reactor.Conn, _ reactor.Op, err error) { l.report(err) }
func (l *longSender) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	l.report(err)
}
func (l *longSender) OnClose(_ *reactor.Conn, err error) { l.report(err) }
func (l *longSender) report(err error) {
	select {
	case l.done <- err:
	default: // Nobody waits for so many results.
	}
}

// Layout of a region's memfd: see provider/soft/internal/shm/region_unsafe.go.
const (
	regionName      = "/memfd:rdmaloop-region"
	segmentName     = "/memfd:rdmaloop"
	trailerBytes    = 40
	trailerSizeAt   = 16
	trailerKeyAt    = 24
	pageBytes       = 4096
	largestSparse   = 64 << 40
	sparseRegions   = 8
	smallestAllowed = 1 << 30
)

// regionFile returns the descriptor of this process for the region with a remote key, and
// a copy of the region's trailer.
func regionFile(key uint32) (fd int, trailer []byte, err error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1, nil, err
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err != nil || name != regionName+" (deleted)" {
			continue
		}
		var st unix.Stat_t
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil || unix.Fstat(fd, &st) != nil {
			continue
		}
		trailer = make([]byte, trailerBytes)
		if n, err := unix.Pread(fd, trailer, st.Size-pageBytes); err == nil && n == trailerBytes &&
			binary.NativeEndian.Uint32(trailer[trailerKeyAt:]) == key {
			return fd, trailer, nil
		}
	}
	return -1, nil, fmt.Errorf("no region with the key %#x", key)
}

// inflate replaces the memory of a region by a file without pages that has the given
// number of bytes. The library passes this file to the server.
func inflate(key uint32, size int64) error {
	fd, trailer, err := regionFile(key)
	if err != nil {
		return err
	}
	sparse, err := unix.MemfdCreate("sparse", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer unix.Close(sparse)
	binary.NativeEndian.PutUint64(trailer[trailerSizeAt:], uint64(size))
	if err := unix.Ftruncate(sparse, size+pageBytes); err != nil {
		return err
	}
	if _, err := unix.Pwrite(sparse, trailer, size); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(sparse), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	return unix.Dup3(sparse, fd, unix.O_CLOEXEC)
}

// offerSparse sends long messages from regions that have up to 64 TiB each and no pages.
// The server may map them.
func offerSparse(a *attacker) error {
	l, c, err := newLongSender(a)
	if err != nil {
		return err
	}
	size := int64(largestSparse)
	err = a.eachRound(func() error {
		for range sparseRegions {
			r, at, err := l.alloc(LongMessage)
			if err != nil {
				return err
			}
			if err := inflate(at.RKey, size); err != nil {
				return err
			}
			size = max(size/2, smallestAllowed)
			// The server maps the region after the first message.
			for range 2 {
				if err := l.sendFrom(c, r); err != nil {
					return err
				}
				a.count(func(c *Attack) { c.Sent++; c.SentBytes += LongMessage })
			}
		}
		return nil
	})
	if err == nil {
		a.waitForStop()
	}
	return errors.Join(err, l.close())
}

// punchHoles sends long messages from regions whose pages it removes meanwhile. It also
// tries to truncate all files whose memory it shares with the server. At the end it
// removes the pages of the segments, too.
func punchHoles(a *attacker) error {
	l, c, err := newLongSender(a)
	if err != nil {
		return err
	}
	err = a.eachRound(func() error {
		// Root could truncate the file of a region before it is sealed, so pages are removed
		// only while no region is made.
		r, _, err := l.alloc(LongMessage)
		if err != nil {
			return err
		}
		for range 8 {
			if err := l.sendWhile(c, r, func() { a.punchMappings(regionName) }); err != nil {
				return err
			}
		}
		return r.Close()
	})
	a.punchMappings(segmentName)
	if err == nil {
		a.waitForStop()
	}
	return errors.Join(err, l.close())
}

// punchMappings removes random pages of the memory files with a name. An attack counts
// the pages in Sent, and in Admitted the files that it could truncate.
func (a *attacker) punchMappings(name string) {
	shared, err := sharedMappings()
	if err != nil {
		return
	}
	for _, m := range shared {
		if m.name != name {
			continue
		}
		pages := (m.to - m.from) / pageBytes
		at := m.from + a.rand.Uint64N(pages)*pageBytes
		length := min(pageBytes*(1+a.rand.Uint64N(16)), m.to-at)
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(at), uintptr(length), unix.MADV_REMOVE)
		removed, truncated := errno == 0, false
		// Only a process with certain capabilities can open these files; see
		// proc_pid_map_files(5).
		fd, err := unix.Open(fmt.Sprintf("/proc/self/map_files/%x-%x", m.from, m.to), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
			removed = unix.Fallocate(fd, hole, int64(at-m.from), int64(length)) == nil || removed
			truncated = unix.Ftruncate(fd, 0) == nil
			_ = unix.Close(fd)
		}
		a.count(func(c *Attack) {
			if removed {
				c.Sent++
			}
			if truncated {
				c.Admitted++
			}
		})
	}
}
