//go:build linux

package shmpath

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A segmentScript is the input of FuzzSegment. Each step has segmentStep bytes: the kind,
// a position, and a value.
type segmentScript []byte

const segmentStep = 13

// Kinds of steps.
const (
	stepWrite   = iota // write up to 8 bytes at any offset of the segment
	stepControl        // write 4 bytes at an offset of the control blocks
	stepHeader         // write 8 bytes to the header of a slot
	stepPublish        // publish a slot with any header, with the next sequence number
	stepDrive          // drive the owner
	stepPost           // post a request of the owner
	stepPeer           // drive the peer, which follows the protocol
	numSteps
)

func step(kind byte, at uint32, value uint64) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{kind}, at)
	return binary.LittleEndian.AppendUint64(b, value)
}

// FuzzSegment lets a peer write to the shared memory as a script says, while the owner of
// the other side runs. The owner may lose the connection. It must not fail otherwise. It
// completes each request at most once, and its queues stay within their limits. A
// connection of another process goes on.
func FuzzSegment(f *testing.F) {
	for op := range byte(8) { // all operations of the local path, and one that does not exist
		f.Add([]byte(segmentScript(append(step(stepPublish, uint32(shm.Ready)+uint32(op), 1<<32|uint64(op)), step(stepDrive, 9, 0)...))))
	}
	for op := range byte(8) {
		f.Add([]byte(append(append(step(stepPost, uint32(op), 0), step(stepPublish, uint32(op)|3<<8, 8)...), step(stepDrive, 9, 0)...)))
	}
	f.Add([]byte(append(step(stepControl, 0, 1000), step(stepDrive, 3, 0)...)))
	f.Fuzz(func(t *testing.T, script []byte) {
		d := newMemoryDevice(t, memoryConfig{vectors: 3, bytes: 8 << 10, slots: 16})
		victim, attacker := qptest.NewPair(t, d, verbs.ProgressManual)
		other, peer := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 2, verbs.ProgressManual)
		other.Connect(peer, nil)
		peer.Connect(other, nil)
		for i := range 16 {
			victim.Recv(1000+uint64(i), 4096*i, 4096)
		}
		run := segmentRun{t: t, victim: victim, attacker: attacker, seen: make(map[uint64]bool)}
		for script = script[:min(len(script), 256*segmentStep)]; len(script) >= segmentStep; script = script[segmentStep:] {
			run.step(script)
			run.requireBounded()
		}
		run.drive(50)
		run.requireBounded()

		peer.Recv(3, 0, 4096)
		other.Post(verbs.SendWR{ID: 4, Opcode: verbs.OpSend})
		require.Equal(t, verbs.StatusSuccess, peer.Wait(1, other)[0].Status)
	})
}

type segmentRun struct {
	t                *testing.T
	victim, attacker *qptest.End
	posted           uint64
	seen             map[uint64]bool // requests of the victim that have completed
}

func (r *segmentRun) step(b []byte) {
	mem := sharedMemory(r.attacker)
	at, value := binary.LittleEndian.Uint32(b[1:]), b[5:13]
	switch b[0] % numSteps {
	case stepWrite:
		copy(mem[at%uint32(len(mem)):], value)
	case stepControl:
		copy(mem[shm.ControlOffset+at%(2*shm.ControlStride):], value[:4])
	case stepHeader:
		copy(mem[shm.RingsOffset+at%(2*16*4)/4*shm.SlotSize+at%4*8:], value)
	case stepPublish:
		r.publish(at, binary.LittleEndian.Uint64(value))
	case stepDrive:
		r.drive(int(at % 16))
	case stepPost:
		if _, err := r.victim.QP.PostSend([]verbs.SendWR{hostileRequest(r.victim, r.attacker, r.posted, int(at%4))}); err == nil {
			r.posted++
		}
	case stepPeer:
		r.attacker.PollN(int(at % 4))
	}
}

// publish publishes a slot, whether or not the ring has room. The bytes of the parameter
// kind are the operation, the flags, the attempt and the key.
func (r *segmentRun) publish(kind uint32, value uint64) {
	c := connOf(r.attacker)
	if c == nil {
		return
	}
	dest := c.dest
	for range kind >> 16 & 3 {
		dest = dest.Next()
	}
	key := uint32(value >> 32)
	if kind>>24&1 == 1 {
		key = r.victim.MR.RKey()
	}
	c.p.out.Put(&shm.Slot{Dest: dest, Fragment: fragment.Fragment{
		Op: fragment.Op(kind), Flags: fragment.Flags(kind >> 8), Length: uint32(value), Imm: uint32(value >> 32),
		Addr: r.victim.MR.Addr() + value&0xffff, Key: key, Total: uint32(value),
	}})
	c.p.out.PublishFirst()
}

func (r *segmentRun) drive(n int) {
	for _, wc := range r.victim.PollN(n) {
		if wc.Flags&verbs.WCInline != 0 {
			continue
		}
		require.False(r.t, r.seen[wc.ID], "request %d completed twice", wc.ID)
		r.seen[wc.ID] = true
	}
}

// requireBounded checks the queues of the victim that the peer can fill.
func (r *segmentRun) requireBounded() {
	c := connOf(r.victim)
	if c == nil {
		return
	}
	p := c.p
	require.LessOrEqual(r.t, p.notices.shared, maxRemoteRegions+p.in.Len())
	require.LessOrEqual(r.t, p.notices.len()-p.notices.shared, maxAnswers+8)
	require.LessOrEqual(r.t, len(c.responses), qp.MaxRdAtomic)
	require.LessOrEqual(r.t, len(p.regions.byKey), maxRemoteRegions)
	require.LessOrEqual(r.t, len(p.sent.awaited.entries), 2*maxPending*p.out.Len())
	require.LessOrEqual(r.t, p.blocked.len(), p.conns.len())
}
