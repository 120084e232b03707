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

	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A MappingLimit limits how many segments and regions of peers a device maps, and how
// many bytes. The kernel limits the mappings of a process (vm.max_map_count). The Go
// runtime ends the process if it can not map more memory for the heap. So a device uses
// at most half of the mappings that the rest of the process does not use.
type MappingLimit struct {
	Sim simhost.Host // simulated host; nil on the real host

	systemMax int // number of mappings that the kernel allows for a process
	// count returns the present number of mappings, or false if it is not known.
	count  func() (int, bool)
	now    func() time.Time
	counts *counters.Set // counters of the device

	mu     sync.Mutex
	bytes  mappedBytes
	mapped int // number of mapped segments
	// largest number of segments that may be mapped, computed by recount
	maxSegments int
	nextCount   int       // number of mapped segments at which mappings are counted again
	counting    bool      // true while a count is in progress
	lastCount   time.Time // time at which the last count began
}

const (
	// mappingStep is the number of new segments after which the mappings of the process
	// are counted. While a count runs, at most mappingStep more segments may be mapped.
	// A count of 65,003 mappings took 81 ms on two virtual cores.
	mappingStep = 1024
	// mappingPause is the shortest time between two counts if the limit is reached. It
	// limits the number of counts that peers can cause. Arbitrary.
	mappingPause = time.Second
	// defaultMaxMappings is DEFAULT_MAX_MAP_COUNT of Linux.
	defaultMaxMappings = 65530
)

// NewMappingLimit returns the MappingLimit of a device. The parameter systemMax is the
// kernel's limit for a process. The function count returns the number of mappings of the
// process, or false. NewMappingLimit calls count, which takes time.
func NewMappingLimit(systemMax int, count func() (int, bool), bytes ByteLimits, counts *counters.Set) *MappingLimit {
	l := &MappingLimit{systemMax: systemMax, count: count, now: time.Now, counts: counts, bytes: newMappedBytes(bytes)}
	l.recount()
	return l
}

// acquire is called before n bytes are mapped, which are memory of a region if the last
// parameter is true. It returns an error that matches verbs.ErrNoResources if no more
// segments or bytes may be mapped, and errPeerLimit if not for this process. From time to
// time it counts the mappings of the process in another goroutine.
func (l *MappingLimit) acquire(p Process, n uint64, region bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counting && (l.mapped >= l.nextCount || l.mapped >= l.maxSegments && l.now().Sub(l.lastCount) >= mappingPause) {
		l.counting, l.lastCount = true, l.now()
		go l.recount()
	}
	if most := min(l.maxSegments, l.nextCount+mappingStep); l.mapped >= most {
		l.counts.Limit(counters.NoMappingsErr)
		return fmt.Errorf("%w: %d shared segments are mapped, and vm.max_map_count allows %d",
			verbs.ErrNoResources, l.mapped, most)
	}
	if err := l.acquireBytes(p, n, region); err != nil {
		return err
	}
	l.mapped++
	return nil
}

// acquireBytes counts the bytes of a mapping. The caller holds the mutex.
func (l *MappingLimit) acquireBytes(p Process, n uint64, region bool) error {
	err := l.bytes.add(p, n, region)
	if err != nil {
		l.counts.Limit(counters.MappedBytesErr)
	}
	return err
}

// release is called after n bytes were unmapped.
func (l *MappingLimit) release(p Process, n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mapped--
	l.bytes.remove(p, n)
	// The rest of the process may take the free mapping. So the next count comes after
	// at most mappingStep new segments.
	l.nextCount = min(l.nextCount, l.mapped+mappingStep)
}

// mmapFailed undoes acquire after an error of mmap(2). ENOMEM is counted as
// NoMappingsErr: it means no memory or too many mappings.
func (l *MappingLimit) mmapFailed(p Process, n uint64, err error) {
	l.release(p, n)
	if errors.Is(err, unix.ENOMEM) {
		l.counts.Limit(counters.NoMappingsErr)
	}
}

// recount counts the mappings of the process and sets maxSegments. If it can not count
// them, it assumes that the rest of the process uses a quarter of systemMax. The caller
// does not hold the mutex.
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

// CountMappings returns the number of mappings of this process, or false if it is not
// known. See proc_pid_maps(5).
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
