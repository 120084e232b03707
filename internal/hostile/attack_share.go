//go:build linux

package hostile

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Layout of a segment and its slots: see segment.go and ring.go in
// provider/soft/internal/shm.
const (
	slotsAt       = 16   // number of slots in the header
	serverAckAt   = 1280 // number of slots that the server has consumed
	clientSlotsAt = 4096 // slots from the client to the server
	slotBytes     = 128
	opShare       = 0x86
)

// A rawSegment is the memory that a server shares with an attacker. The attacker consumes
// nothing that the server sends.
type rawSegment struct {
	fd, doorbell int
	slots        uint32
	qpn          uint32 // number of the server's queue pair
	sent         uint32 // number of slots sent
}

// openRaw takes the segment that has come with a reply. It returns false if the server
// has refused the request.
func openRaw(a answer) (s rawSegment, ok bool) {
	if a.kind != localREP || len(a.fds) != 2 {
		a.close()
		return s, false
	}
	s = rawSegment{fd: a.fds[0], doorbell: a.fds[1], qpn: a.qpn}
	s.slots = uint32(s.word(slotsAt))
	return s, true
}

func (s *rawSegment) close() {
	_ = unix.Close(s.fd)
	_ = unix.Close(s.doorbell)
}

func (s *rawSegment) word(at int64) uint64 {
	var b [8]byte
	_, _ = unix.Pread(s.fd, b[:], at)
	return binary.NativeEndian.Uint64(b[:])
}

// errHungUp means that the server has ended the connection of a rawSegment.
var errHungUp = errors.New("the server has closed the doorbell")

// share asks for the region with a key. If the server consumes no more slots, the error
// is errHungUp, or os.ErrDeadlineExceeded after localTimeout.
func (s *rawSegment) share(key uint32) error {
	deadline := time.Now().Add(localTimeout)
	for s.sent-uint32(s.word(serverAckAt)) >= s.slots {
		// One byte wakes the server. An error means that the server has closed the doorbell.
		err := unix.Sendto(s.doorbell, []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		if err == unix.EPIPE || err == unix.ECONNRESET || err == unix.ECONNREFUSED {
			return errHungUp
		}
		if time.Now().After(deadline) {
			return os.ErrDeadlineExceeded
		}
	}
	at := clientSlotsAt + int64(s.sent%s.slots)*slotBytes
	s.sent++
	var b [32]byte
	binary.NativeEndian.PutUint32(b[12:], key)
	binary.NativeEndian.PutUint64(b[:], uint64(uint16(s.sent))|opShare<<16|uint64(s.qpn)<<32)
	_, err := unix.Pwrite(s.fd, b[8:], at+8)
	if err == nil {
		_, err = unix.Pwrite(s.fd, b[:8], at) // The server reads the slot now.
	}
	return err
}

// shareWithoutEnd opens one connection in each round, with a loop of the client that does
// not exist. On each of them it asks for Spec.Messages regions and consumes no answer.
// The attacker closes none of them. Attack.Refused counts the connections that the server
// has refused or ended.
func shareWithoutEnd(a *attacker) error {
	raiseDescriptors()
	port := uint16(a.rand.Uint32())
	var sockets []localSocket
	var segments []rawSegment
	defer func() {
		for _, s := range sockets {
			s.close()
		}
		for _, s := range segments {
			s.close()
		}
	}()
	err := a.eachRound(func() error {
		s, err := newLocalSocket()
		if err != nil {
			return err
		}
		sockets = append(sockets, s)
		dst := a.spec.Addr
		request := localRequest(netip.AddrPortFrom(dst.Addr(), s.bindNext(dst.Addr(), &port)), dst)
		binary.LittleEndian.PutUint64(request[64:], a.rand.Uint64()) // GUID of the client's device
		if err := s.connect(localName(dst.Addr().String(), dst.Port())); err != nil {
			return err
		}
		s.send(request)
		got, _ := s.receive()
		segment, ok := openRaw(got)
		if !ok {
			a.count(func(c *Attack) { c.Refused++ })
			return nil
		}
		segments = append(segments, segment)
		a.count(func(c *Attack) { c.Admitted++ })
		for key := range uint32(a.spec.Messages) {
			err := segment.share(key + 1)
			if errors.Is(err, errHungUp) {
				a.count(func(c *Attack) { c.Refused++ })
				break
			}
			if err != nil {
				return err
			}
			a.count(func(c *Attack) { c.Sent++; c.SentBytes += slotBytes })
		}
		return nil
	})
	if err == nil {
		a.waitForStop()
	}
	return err
}
