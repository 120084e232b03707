//go:build linux

package shm

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A Mapper maps memory that is shared with one process, within the limits of a device.
// Any goroutine may call its methods.
type Mapper struct {
	limit   *MappingLimit
	process Process
}

// For returns the Mapper of a process. Processes in other PID namespaces have a Mapper
// for each user.
func (l *MappingLimit) For(p Process) Mapper { return Mapper{l, p} }

// mmap maps the first length bytes of a file. See acquire for the errors.
// The parameter region is true for the memory of a region.
func (m Mapper) mmap(fd, length, prot int, region bool) ([]byte, error) {
	if err := m.limit.acquire(m.process, uint64(length), region); err != nil {
		return nil, err
	}
	mem, err := simhost.Map(m.limit.Sim, func() ([]byte, error) { return unix.Mmap(fd, 0, length, prot, unix.MAP_SHARED) })
	if err != nil {
		m.limit.mmapFailed(m.process, uint64(length), err)
		return nil, err
	}
	m.limit.counts.Add(gaugeOf(region), uint64(length))
	return mem, nil
}

// munmap undoes mmap.
func (m Mapper) munmap(mem []byte, region bool) {
	n := uint64(len(mem))
	simhost.Unmapped(m.limit.Sim, mem)
	_ = unix.Munmap(mem)
	m.limit.counts.Sub(gaugeOf(region), n)
	m.limit.release(m.process, n)
}

// gaugeOf returns the counter of the bytes that are mapped for regions, or for segments.
func gaugeOf(region bool) counters.ID {
	if region {
		return counters.PeerRegionBytes
	}
	return counters.SegmentBytes
}
