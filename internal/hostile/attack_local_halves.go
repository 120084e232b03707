//go:build linux

package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// sendLocalHalves opens connections on the local path, and then sends the first half of a
// message on each. The library opens the connections. Then its loop stops for ever, and
// the attack writes slots into the ring itself.
//
// Attack.Admitted counts connections, and Sent first halves.
func sendLocalHalves(a *attacker) error {
	raiseDescriptors()
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	h := &localHalves{attacker: a, memory: memory, dests: make(map[uint32]bool), ready: newEvent()}
	if err := h.open(&a.spec, h); err != nil {
		return err
	}
	if err := h.engine.Dial(a.spec.Addr, nil); err != nil {
		return err
	}
	select {
	case <-h.ready.done:
	case <-a.ctx.Done():
		return nil
	case <-time.After(echoLimit):
		return errors.New("the connections did not open")
	}
	// The server ends the connections when this process exits.
	failed := errors.New("the loop has ended")
	err = h.onLoop(func() {
		if failed = h.sendAll(); failed == nil {
			a.count(func(c *Attack) { c.Rounds++ })
			a.waitForStop()
		}
	})
	return errors.Join(err, failed)
}

// localHalves has the connections of sendLocalHalves. They share one segment. Its layout
// is in provider/soft/internal/shm.
type localHalves struct {
	reactor.BaseHandler
	node
	*attacker
	memory *os.File
	ring   uint64 // address of the slots on which this process sends; 0 if not known yet
	acks   uint64 // address of the server's word Ack
	slots  uint64 // number of slots of the ring
	tail   uint64 // position of the next slot
	dests  map[uint32]bool
	ready  *event // every connection has got an echo
}

const (
	segmentMagic  = 0x706f6f6c616d6472
	serverControl = 1024 + 256 // offset of the control block of the accepting side
	ringOffset    = 4096
	slotSize      = 128
	opSend        = 1
	flagFirst     = 1
)

// OnOpen sends a message, which makes the server's destination of the connection visible
// in the ring.
func (h *localHalves) OnOpen(c *reactor.Conn) {
	h.count(func(c *Attack) { c.Admitted++ })
	_ = c.Send([]byte("x"), nil)
}

// OnMessage looks for the new destination in the ring, and dials the next connection.
// Only one message is in the ring at a time, so it is found before it is overwritten.
func (h *localHalves) OnMessage(c *reactor.Conn, _ reactor.Message) {
	err := h.scan()
	switch {
	case err == nil && len(h.dests) < h.spec.Conns:
		err = h.engine.Dial(h.spec.Addr, nil)
	case err == nil:
		h.ready.happen()
	}
	if err != nil {
		_ = c.Abort(err)
	}
}

// find finds the ring.
func (h *localHalves) find() error {
	shared, err := sharedMappings()
	if err != nil {
		return err
	}
	for _, m := range shared {
		var header [32]byte
		if _, err := h.memory.ReadAt(header[:], int64(m.from)); err != nil {
			continue
		}
		if binary.LittleEndian.Uint64(header[:]) == segmentMagic {
			h.ring, h.acks = m.from+ringOffset, m.from+serverControl
			h.slots = binary.LittleEndian.Uint64(header[16:])
			return nil
		}
	}
	return errors.New("no shared segment")
}

// scan reads the destinations of all SENDs in the ring, and the position after the last
// slot. Fewer than 2^16 slots are sent in all, so the sequence numbers do not wrap.
func (h *localHalves) scan() error {
	if h.ring == 0 {
		if err := h.find(); err != nil {
			return err
		}
	}
	b := make([]byte, h.slots*slotSize)
	if _, err := h.memory.ReadAt(b, int64(h.ring)); err != nil {
		return err
	}
	for i := uint64(0); i < h.slots; i++ {
		word := binary.LittleEndian.Uint64(b[i*slotSize:])
		h.tail = max(h.tail, word&0xffff)
		if byte(word>>16) == opSend {
			h.dests[uint32(word>>32)] = true
		}
	}
	return nil
}

// sendAll sends the first byte of a message to each destination. It fills at most half of
// the ring before the server has consumed it.
func (h *localHalves) sendAll() error {
	if err := h.scan(); err != nil {
		return err
	}
	for dest := range h.dests {
		if h.tail%(h.slots/2) == 0 {
			if err := h.drain(); err != nil {
				return err
			}
		}
		var slot [16]byte
		at := int64(h.ring + h.tail%h.slots*slotSize)
		h.tail++
		binary.LittleEndian.PutUint64(slot[:], h.tail|opSend<<16|flagFirst<<24|uint64(dest)<<32)
		binary.LittleEndian.PutUint64(slot[8:], 1) // length
		// The first word shows the server that the slot is filled, so it is written last.
		for _, part := range [][2]int{{8, 16}, {0, 8}} {
			if _, err := h.memory.WriteAt(slot[part[0]:part[1]], at+int64(part[0])); err != nil {
				return err
			}
		}
		h.count(func(c *Attack) { c.Sent++ })
	}
	return h.drain()
}

// drain rings the doorbells until the server has consumed all slots.
func (h *localHalves) drain() error {
	for deadline := time.Now().Add(echoLimit); time.Now().Before(deadline); h.pause(time.Millisecond) {
		var ack [4]byte
		if _, err := h.memory.ReadAt(ack[:], int64(h.acks)); err != nil {
			return err
		}
		if uint64(binary.LittleEndian.Uint32(ack[:])) == h.tail || h.ctx.Err() != nil {
			return nil
		}
		ringDoorbells()
	}
	return fmt.Errorf("the server does not consume slot %d", h.tail)
}

// ringDoorbells sends a byte to every Unix stream socket of this process.
func ringDoorbells() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		domain, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err == nil && domain == unix.AF_UNIX && kind == unix.SOCK_STREAM {
			_ = unix.Sendto(fd, []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		}
	}
}
