//go:build linux

package soft

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A mappingLimit bounds the shared segments that a device maps. The kernel allows a
// process a number of mappings (vm.max_map_count, see proc_sys_vm(5)), and the Go
// runtime ends the process when it gets none for its heap. So a device takes at most
// half of what the rest of the process has left: the other half is for the runtime, the
// program, and other devices. How many mappings the rest has is counted now and then.
//
// It may be used from any goroutine.
type mappingLimit struct {
	most   int                // mappings that the process may have
	count  func() (int, bool) // mappings that it has now; false: not known
	now    func() time.Time
	counts *counters // of the device

	mu      sync.Mutex
	own     int       // segments that are mapped
	ceiling int       // how many segments there may be, as of the last count
	next    int       // with so many segments the mappings are counted again
	counted time.Time // when they were counted last
}

const (
	// mappingStep is after how many more segments the mappings of the process are
	// counted again. A count takes about 0.9 µs for each mapping (measured with
	// 30,000), so that it adds at most 0.06 ms to a connection when there are 65,530.
	// The step is also by how much each device can overshoot when several take
	// segments at the same time.
	mappingStep = 1024
	// mappingPause is how soon a device that is at its limit counts again: other parts
	// of the process may have given mappings back. It bounds what peers can make it
	// spend that connect again and again. Arbitrary.
	mappingPause = time.Second
	// defaultMaxMappings is DEFAULT_MAX_MAP_COUNT of Linux.
	defaultMaxMappings = 65530
)

func newMappingLimit(counts *counters) *mappingLimit {
	return &mappingLimit{most: maxMappings(), count: countMappings, now: time.Now, counts: counts}
}

// take allows one more mapping, or returns an error that matches verbs.ErrNoResources.
func (l *mappingLimit) take() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own >= l.next || l.own >= l.ceiling && l.now().Sub(l.counted) >= mappingPause {
		l.look()
	}
	if l.own >= l.ceiling {
		l.counts.inc(noMappingsErr)
		return fmt.Errorf("%w: %d shared segments are mapped, of %d that vm.max_map_count leaves room for",
			verbs.ErrNoResources, l.own, l.ceiling)
	}
	l.own++
	return nil
}

// give takes back what take has allowed.
func (l *mappingLimit) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own--
	// Others may take the room that becomes free, so it is counted again before it is
	// used again.
	l.next = min(l.next, l.own+mappingStep)
}

// refused takes back what take has allowed, because mmap(2) failed. ENOMEM says that the
// process has too many mappings after all, or that there is no memory.
func (l *mappingLimit) refused(err error) {
	l.give()
	if errors.Is(err, unix.ENOMEM) {
		l.counts.inc(noMappingsErr)
	}
}

// look counts the mappings of the process and sets the ceiling. If they can not be
// counted, the rest of the process is taken to have a quarter of those allowed.
func (l *mappingLimit) look() {
	l.counted = l.now()
	others := l.most / 4
	if n, ok := l.count(); ok {
		others = max(0, n-l.own)
	}
	l.ceiling = max(0, l.most-others) / 2
	l.next = l.own + mappingStep
}

// maxMappings is vm.max_map_count.
func maxMappings() int {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return defaultMaxMappings
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || n <= 0 {
		return defaultMaxMappings
	}
	return n
}

// countMappings counts the lines of /proc/self/maps, one for each mapping; see
// proc_pid_maps(5).
func countMappings() (lines int, ok bool) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	var buf [1 << 16]byte
	for {
		n, err := f.Read(buf[:])
		lines += bytes.Count(buf[:n], []byte{'\n'})
		if err == io.EOF {
			return lines, true
		}
		if err != nil {
			return 0, false
		}
	}
}
