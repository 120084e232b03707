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
// runtime ends the process if it gets none for its heap. So a device uses at most
// half of the mappings that the rest of the process has left over. The other half is
// for the runtime, the program, and other devices. The mappings of the rest are
// counted from time to time, in a goroutine: no caller waits for a count. The result of
// the last count applies until the next one is done.
//
// The methods may be called from any goroutine.
type mappingLimit struct {
	most   int                // maximum number of mappings of the process
	count  func() (int, bool) // returns the present number of mappings, and false if it is not known
	now    func() time.Time
	counts *counters // counters of the device

	mu       sync.Mutex
	own      int       // number of mapped segments
	ceiling  int       // maximum number of segments, as of the last count
	next     int       // number of segments at which the next count begins
	counting bool      // a count is in progress
	counted  time.Time // time at which the last count began
}

const (
	// mappingStep is the number of further segments after which the mappings of the
	// process are counted again, and the number of segments that may be added during that
	// count. A count takes 0.75 to 1.4 µs for each mapping of a file: 81 ms for 65,003
	// (measured on two cores of a virtual machine; 24 ms for anonymous mappings). Twice
	// the step bounds by how much each device can exceed its limit when several devices
	// map segments at the same time.
	mappingStep = 1024
	// mappingPause is the shortest time between two counts at the limit. Other parts of
	// the process may have released mappings meanwhile. The pause bounds the work that
	// peers can cause by connecting again and again. Arbitrary.
	mappingPause = time.Second
	// defaultMaxMappings is DEFAULT_MAX_MAP_COUNT of Linux.
	defaultMaxMappings = 65530
)

// newMappingLimit counts the mappings for the first time, so a loop must not call it.
func newMappingLimit(counts *counters) *mappingLimit {
	l := &mappingLimit{most: maxMappings(), count: countMappings, now: time.Now, counts: counts}
	l.look()
	return l
}

// take allows one more mapping, or returns an error that matches verbs.ErrNoResources.
func (l *mappingLimit) take() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counting && (l.own >= l.next || l.own >= l.ceiling && l.now().Sub(l.counted) >= mappingPause) {
		l.counting, l.counted = true, l.now()
		go l.look()
	}
	if most := min(l.ceiling, l.next+mappingStep); l.own >= most {
		l.counts.inc(noMappingsErr)
		return fmt.Errorf("%w: %d shared segments are mapped, of %d that vm.max_map_count leaves room for",
			verbs.ErrNoResources, l.own, most)
	}
	l.own++
	return nil
}

// give releases a mapping that take has allowed.
func (l *mappingLimit) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own--
	// Other parts of the process may use the released mapping, so the mappings are
	// counted before the device uses it again.
	l.next = min(l.next, l.own+mappingStep)
}

// refused releases a mapping that take has allowed and mmap(2) has refused. ENOMEM
// says that the process has too many mappings nevertheless, or that there is no
// memory.
func (l *mappingLimit) refused(err error) {
	l.give()
	if errors.Is(err, unix.ENOMEM) {
		l.counts.inc(noMappingsErr)
	}
}

// look counts the mappings of the process and sets the ceiling. If they can not be
// counted, it assumes that the rest of the process uses a quarter of the maximum. A
// segment that is mapped or unmapped during the count counts as one of the rest. The
// caller does not hold the mutex.
func (l *mappingLimit) look() {
	before := l.segments()
	n, ok := l.count()
	l.mu.Lock()
	defer l.mu.Unlock()
	others := l.most / 4
	if ok {
		others = max(0, n-min(before, l.own))
	}
	l.ceiling = max(0, l.most-others) / 2
	l.next = l.own + mappingStep
	l.counting = false
}

// segments returns the number of mapped segments.
func (l *mappingLimit) segments() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own
}

// maxMappings returns vm.max_map_count.
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

// countMappings returns the number of lines of /proc/self/maps, which is the number
// of mappings; see proc_pid_maps(5).
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
