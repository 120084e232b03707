//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A Segment is memory that two shards share. The side that accepts the first connection
// makes the segment. Offsets in bytes:
//
//	0     header: magic, layout version, geometry
//	1024  control block of side 0 (the connecting side)
//	1280  control block of side 1 (the accepting side)
//	4096  slots 0->1, slots 1->0, payload area 0->1, payload area 1->0
type Segment struct {
	FD   int    // descriptor of the segment; -1 after it was closed or taken
	Mem  []byte // mapped memory of the segment; nil after Close
	geom Geometry
	maps Mapper
}

const (
	segmentMagic   = 0x706f6f6c616d6472 // the bytes "rdmaloop" as a little-endian number
	segmentVersion = 3
	ControlOffset  = 1024 // offset of the control block of side 0
	ControlStride  = 256  // distance from the control block of side 0 to that of side 1
	RingsOffset    = 4096 // offset of the slots of both rings
)

// size returns the size of a segment in bytes.
func (g Geometry) size() int {
	return RingsOffset + 2*(int(g.Slots)*SlotSize+int(g.Bytes))
}

// segmentSeals prevent the peer from changing the size of the file (fcntl(2), "File
// sealing"). If the peer could shorten the file, an access beyond the end of the file
// would raise SIGBUS.
const segmentSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newSegment makes a segment. The caller owns it.
func newSegment(geom Geometry, maps Mapper) (*Segment, error) {
	fd, err := unix.MemfdCreate("rdmaloop", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	s := &Segment{FD: fd, geom: geom, maps: maps}
	if err := s.create(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Segment) create() error {
	if err := unix.Ftruncate(s.FD, int64(s.geom.size())); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(s.FD), unix.F_ADD_SEALS, segmentSeals); err != nil {
		return err
	}
	if err := s.mmap(); err != nil {
		return err
	}
	header := []uint64{segmentMagic, segmentVersion, uint64(s.geom.Slots), uint64(s.geom.Bytes)}
	for i, v := range header {
		binary.LittleEndian.PutUint64(s.Mem[8*i:], v)
	}
	return nil
}

// openSegment checks a segment that the peer has made, and maps it. openSegment owns the
// descriptor fd, even after an error. ErrSegment means that the segment is not valid.
func openSegment(fd int, maps Mapper) (*Segment, error) {
	s := &Segment{FD: fd, maps: maps}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ErrSegment means that a segment of a peer is not valid.
var ErrSegment = errors.New("not a usable shared segment")

func (s *Segment) open() error {
	if err := checkMemfd(s.FD); err != nil {
		return fmt.Errorf("%w: %w", ErrSegment, err)
	}
	var header [32]byte
	if n, err := unix.Pread(s.FD, header[:], 0); err != nil || n != len(header) {
		return fmt.Errorf("%w: no header", ErrSegment)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(header[8*i:]) }
	if word(0) != segmentMagic || word(1) != segmentVersion {
		return fmt.Errorf("%w: magic %#x, version %d", ErrSegment, word(0), word(1))
	}
	s.geom = Geometry{uint32(word(2)), uint32(word(3))}
	if err := s.geom.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrSegment, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.FD, &st); err != nil {
		return fmt.Errorf("%w: %w", ErrSegment, err)
	}
	if st.Size != int64(s.geom.size()) {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrSegment, st.Size, s.geom.size())
	}
	return s.mmap()
}

// checkMemfd makes sure that an access to the peer's memfd can not raise SIGBUS.
func checkMemfd(fd int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&segmentSeals != segmentSeals {
		return errors.New("not sealed")
	}
	// A file of huge pages is refused, because an access raises SIGBUS if no huge page is
	// free.
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return errors.New("not a memfd of ordinary pages")
	}
	return nil
}

func (s *Segment) mmap() error {
	mem, err := s.maps.mmap(s.FD, s.geom.size(), unix.PROT_READ|unix.PROT_WRITE, false)
	s.Mem = mem
	return err
}

// takeFD transfers the descriptor to the caller. The memory stays mapped.
func (s *Segment) takeFD() (fd int) {
	fd, s.FD = s.FD, -1
	return fd
}

// closeFD closes the descriptor. The memory stays mapped.
func (s *Segment) closeFD() {
	if s.FD >= 0 {
		_ = unix.Close(s.FD)
		s.FD = -1
	}
}

// Close unmaps the memory and closes the descriptor. After Close, no goroutine may use
// the memory.
func (s *Segment) Close() {
	s.closeFD()
	if s.Mem != nil {
		s.maps.munmap(s.Mem, false)
		s.Mem = nil
	}
}

// Carve returns the control block of a side, and the ring on which this side sends. Side
// 0 is the connecting side.
func (s *Segment) Carve(side int) (*ControlBlock, Ring) {
	slots, area := int(s.geom.Slots)*SlotSize, int(s.geom.Bytes)
	slotsAt, areaAt := RingsOffset+side*slots, RingsOffset+2*slots+side*area
	return controlAt(s.Mem[ControlOffset+side*ControlStride:]), Ring{
		slots: slotsOf(s.Mem[slotsAt : slotsAt+slots : slotsAt+slots]),
		area:  s.Mem[areaAt : areaAt+area : areaAt+area],
	}
}
