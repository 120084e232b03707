//go:build linux

package shm

import "golang.org/x/sys/unix"

// An End has the resources of one side of a connection.
type End struct {
	Segment  *Segment
	Side     int // 0 for the connecting side, 1 for the accepting side
	Doorbell int // descriptor of this side's doorbell; see doorbell.go
}

// NewEnd makes the shared memory and the doorbells of a connection, on the accepting
// side. The caller owns all results. It sends both descriptors to the connecting side
// for OpenEnd.
func NewEnd(geom Geometry, maps *MappingLimit) (end *End, segment, doorbell int, err error) {
	seg, err := newSegment(geom, maps)
	if err != nil {
		return nil, -1, -1, err
	}
	own, peers, err := newDoorbells()
	if err != nil {
		seg.Close()
		return nil, -1, -1, err
	}
	return &End{Segment: seg, Side: 1, Doorbell: own}, seg.takeFD(), peers, nil
}

// OpenEnd makes the End of the connecting side from the descriptors of NewEnd. It owns
// them, even after an error. ErrSegment means that the segment is not valid.
func OpenEnd(segment, doorbell int, maps *MappingLimit) (*End, error) {
	seg, err := openSegment(segment, maps)
	if err != nil {
		_ = unix.Close(doorbell)
		return nil, err
	}
	seg.closeFD()
	return &End{Segment: seg, Side: 0, Doorbell: doorbell}, nil
}

// NewEndPair makes both ends of a connection within this process. The caller owns them.
func NewEndPair(geom Geometry, maps *MappingLimit) (accepting, connecting *End, err error) {
	accepting, segment, doorbell, err := NewEnd(geom, maps)
	if err != nil {
		return nil, nil, err
	}
	if connecting, err = OpenEnd(segment, doorbell, maps); err != nil {
		accepting.Release()
		return nil, nil, err
	}
	return accepting, connecting, nil
}

// Release unmaps the memory and closes the doorbell.
func (e *End) Release() {
	e.Segment.Close()
	_ = unix.Close(e.Doorbell)
}
