//go:build linux

package shm

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

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A MappingLimit limits how many shared segments a device maps. The kernel limits the
// number of mappings of a process (vm.max_map_count, see proc_sys_vm(5)). If the Go
// runtime can not map memory for its heap, it ends the process. So a device leaves room:
// from the number that the kernel allows it subtracts the mappings of all other parts of
// the process, and uses at most half of the result. The other half is for the Go runtime,
// the program, and other devices.
type MappingLimit struct {
	systemMax int // number of mappings that the kernel allows for a process
	// count returns the present number of mappings, or false if it is not known.
	count  func() (int, bool)
	now    func() time.Time
	counts *counters.Set // counters of the device

	mu     sync.Mutex
	mapped int // number of mapped segments
	// largest number of segments that may be mapped, as computed after the last count
	maxSegments int
	nextCount   int       // when mapped reaches this number, the mappings are counted again
	counting    bool      // true while a count is in progress
	lastCount   time.Time // time at which the last count began
}

const (
	// mappingStep is the number of further segments after which the mappings of the
	// process are counted again. While this count runs, up to mappingStep more segments
	// may be added. A count takes 0.75 to 1.4 µs for each mapping of a file. That was
	// measured on two cores of a virtual machine: 65,003 mappings of files took 81 ms,
	// and as many anonymous mappings took 24 ms. When several devices map segments at the
	// same time, each of them can exceed its limit by at most 2*mappingStep.
	mappingStep = 1024
	// mappingPause is the shortest time between two counts while the limit is reached.
	// Other parts of the process may have released mappings since the last count, so
	// counting again may help. The pause limits the work that peers can cause by
	// connecting again and again. It is arbitrary.
	mappingPause = time.Second
	// defaultMaxMappings is DEFAULT_MAX_MAP_COUNT of Linux.
	defaultMaxMappings = 65530
)

// NewMappingLimit returns the MappingLimit of a device. The parameter systemMax is the
// number of mappings that the kernel allows for a process. The function count returns the
// present number of mappings of the process, or false if the number is not known.
// NewMappingLimit calls count, which takes time, so a loop must not call NewMappingLimit.
func NewMappingLimit(systemMax int, count func() (int, bool), counts *counters.Set) *MappingLimit {
	l := &MappingLimit{systemMax: systemMax, count: count, now: time.Now, counts: counts}
	l.recount()
	return l
}

// Acquire counts one more segment before the caller maps it. If the limit is reached,
// Acquire counts nothing and returns an error that matches verbs.ErrNoResources. It may
// start a count of the mappings in another goroutine, and does not wait for that count.
func (l *MappingLimit) Acquire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counting && (l.mapped >= l.nextCount || l.mapped >= l.maxSegments && l.now().Sub(l.lastCount) >= mappingPause) {
		l.counting, l.lastCount = true, l.now()
		go l.recount()
	}
	if most := min(l.maxSegments, l.nextCount+mappingStep); l.mapped >= most {
		l.counts.Inc(counters.NoMappingsErr)
		return fmt.Errorf("%w: %d shared segments are mapped, and vm.max_map_count allows %d",
			verbs.ErrNoResources, l.mapped, most)
	}
	l.mapped++
	return nil
}

// Release counts one segment less. It is called after a segment was unmapped.
func (l *MappingLimit) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mapped--
	// Other parts of the process can use the mappings that were released. So after a
	// while the last count is wrong. The next count therefore starts after at most
	// mappingStep further segments.
	l.nextCount = min(l.nextCount, l.mapped+mappingStep)
}

// mmapFailed undoes Acquire after mmap(2) has failed with the error err. If err is
// ENOMEM, mmapFailed adds 1 to the counter NoMappingsErr. ENOMEM means either that there
// is no memory, or that the process has too many mappings although the limit of the
// device was not reached.
func (l *MappingLimit) mmapFailed(err error) {
	l.Release()
	if errors.Is(err, unix.ENOMEM) {
		l.counts.Inc(counters.NoMappingsErr)
	}
}

// recount counts the mappings of the process and sets maxSegments. If the mappings can
// not be counted, it assumes that the other parts of the process use a quarter of
// systemMax. If a segment is mapped or unmapped during the count, the count may include
// it or not; recount then treats it as a mapping of the other parts, so that the device
// maps too few segments rather than too many. The caller does not hold the mutex.
func (l *MappingLimit) recount() {
	before := l.segments()
	n, ok := l.count()
	l.mu.Lock()
	defer l.mu.Unlock()
	others := l.systemMax / 4
	if ok {
		others = max(0, n-min(before, l.mapped))
	}
	l.maxSegments = max(0, l.systemMax-others) / 2
	l.nextCount = l.mapped + mappingStep
	l.counting = false
}

// segments returns the number of mapped segments.
func (l *MappingLimit) segments() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mapped
}

// MaxMappings returns vm.max_map_count.
func MaxMappings() int {
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

// CountMappings returns the number of mappings of this process, which is the number of
// lines in /proc/self/maps; see proc_pid_maps(5). It returns false if it can not read
// that file.
func CountMappings() (lines int, ok bool) {
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
