//go:build linux

package soft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A segment is the shared memory of one connection on the local path. The
// accepting side makes it and hands its descriptor over.
//
//	0     header: magic, layout version, geometry
//	1024  control block of side 0 (the connecting side)
//	1280  control block of side 1 (the accepting side)
//	4096  request slots 0->1, request slots 1->0,
//	      response slots 0->1, response slots 1->0,
//	      then the payload areas in the same order
type segment struct {
	fd   int // -1 once closed
	mem  []byte
	geom geometry
	maps *mappingLimit // counter of mappings in which mem is included
}

const (
	segmentMagic   = 0x706f6f6c616d6472 // "rdmaloop"
	segmentVersion = 1
	controlOffset  = 1024
	controlStride  = 256
	ringsOffset    = 4096
)

// size is how many bytes the segment has.
func (g geometry) size() int {
	perSide := int(g.requestSlots)*slotSize + int(g.responseSlots)*slotSize + int(g.requestBytes) + int(g.responseBytes)
	return ringsOffset + 2*perSide
}

// segmentSeals forbid changing the size: a mapping of a file that shrinks
// would fault. See fcntl(2), "File sealing".
const segmentSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newSegment makes a segment, for the accepting side.
func newSegment(cfg *Config, maps *mappingLimit) (*segment, error) {
	geom := cfg.geometry()
	fd, err := unix.MemfdCreate("rdmaloop", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	s := &segment{fd: fd, geom: geom, maps: maps}
	if err := s.create(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *segment) create() error {
	if err := unix.Ftruncate(s.fd, int64(s.geom.size())); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, segmentSeals); err != nil {
		return err
	}
	if err := s.mmap(); err != nil {
		return err
	}
	header := []uint64{segmentMagic, segmentVersion,
		uint64(s.geom.requestSlots), uint64(s.geom.requestBytes), uint64(s.geom.responseSlots), uint64(s.geom.responseBytes)}
	for i, v := range header {
		binary.LittleEndian.PutUint64(s.mem[8*i:], v)
	}
	return nil
}

// openSegment maps a segment that the peer made, for the connecting side. It
// owns fd in any case. What it checks it checks on the descriptor, which the
// peer can not change any more, or on a copy of the header.
func openSegment(fd int, maps *mappingLimit) (*segment, error) {
	s := &segment{fd: fd, maps: maps}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

var errSegment = errors.New("not a usable shared segment")

func (s *segment) open() error {
	seals, err := unix.FcntlInt(uintptr(s.fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errSegment, err)
	}
	if seals&segmentSeals != segmentSeals {
		return fmt.Errorf("%w: not sealed", errSegment)
	}
	var header [48]byte
	if n, err := unix.Pread(s.fd, header[:], 0); err != nil || n != len(header) {
		return fmt.Errorf("%w: no header", errSegment)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(header[8*i:]) }
	if word(0) != segmentMagic || word(1) != segmentVersion {
		return fmt.Errorf("%w: magic %#x, version %d", errSegment, word(0), word(1))
	}
	s.geom = geometry{uint32(word(2)), uint32(word(3)), uint32(word(4)), uint32(word(5))}
	if err := s.geom.check(); err != nil {
		return fmt.Errorf("%w: %w", errSegment, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return fmt.Errorf("%w: %w", errSegment, err)
	}
	if st.Size != int64(s.geom.size()) {
		return fmt.Errorf("%w: %d bytes instead of %d", errSegment, st.Size, s.geom.size())
	}
	return s.mmap()
}

func (s *segment) mmap() error {
	if err := s.maps.acquire(); err != nil {
		return err
	}
	mem, err := unix.Mmap(s.fd, 0, s.geom.size(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		s.maps.mmapFailed(err)
		return err
	}
	s.mem = mem
	return nil
}

// takeFD gives the descriptor away; the mapping stays.
func (s *segment) takeFD() (fd int) {
	fd, s.fd = s.fd, -1
	return fd
}

// closeFD closes the descriptor; the mapping stays.
func (s *segment) closeFD() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

// close gives everything back. Nothing may use the memory any more.
func (s *segment) close() {
	s.closeFD()
	if s.mem != nil {
		_ = unix.Munmap(s.mem)
		s.mem = nil
		s.maps.release()
	}
}

// carve returns the control block and the rings that side sends on.
func (s *segment) carve(side int) (ctl *controlBlock, request, response ring) {
	g := s.geom
	at := ringsOffset
	take := func(n uint32) []byte {
		piece := s.mem[at : at+int(n) : at+int(n)]
		at += int(n)
		return piece
	}
	var slots, areas [2][2][]byte // by kind, then side
	for kind, n := range []uint32{g.requestSlots, g.responseSlots} {
		for i := range 2 {
			slots[kind][i] = take(n * slotSize)
		}
	}
	for kind, n := range []uint32{g.requestBytes, g.responseBytes} {
		for i := range 2 {
			areas[kind][i] = take(n)
		}
	}
	ctl = controlAt(s.mem[controlOffset+side*controlStride:])
	request = ring{slots: slotsOf(slots[0][side]), area: areas[0][side]}
	response = ring{slots: slotsOf(slots[1][side]), area: areas[1][side]}
	return ctl, request, response
}
