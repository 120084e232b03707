package reactor

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestSendFlowAgainstAModel compares sendFlow with a simple model, for random numbers of
// requests.
func TestSendFlowAgainstAModel(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds /= 5
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + rng.IntN(20)
		f := newSendFlow(limit, 1+rng.IntN(limit+2), 0)
		type wr struct {
			slot     uint32
			signaled bool
		}
		var staged, device []wr
		for range 500 {
			if n := rng.IntN(4); n > 0 && !f.full() {
				slot, signaled := f.accept(rng.IntN(10) == 0)
				for _, w := range append(device, staged...) {
					if w.slot == slot { // Functions of package require are slow.
						require.FailNow(t, "slot in use", "seed %d: slot %d", seed, slot)
					}
				}
				staged = append(staged, wr{slot, signaled})
			}
			if rng.IntN(3) == 0 {
				require.EqualValues(t, len(staged), f.staged())
				f.posted = f.head
				device, staged = append(device, staged...), nil
			}
			if at := firstSignaled(device, func(w wr) bool { return w.signaled }); at >= 0 && rng.IntN(2) == 0 {
				require.EqualValues(t, at+1, f.covers(device[at].slot), "seed %d", seed)
				for range at + 1 {
					require.Equal(t, device[0].slot, f.retire())
					device = device[1:]
				}
			}
			require.EqualValues(t, len(device), f.inFlight())
			require.EqualValues(t, len(device)+len(staged), f.outstanding())
			if f.full() {
				all := append(append([]wr(nil), device...), staged...)
				require.GreaterOrEqual(t, firstSignaled(all, func(w wr) bool { return w.signaled }), 0, "seed %d: a full queue has no signaled request", seed)
			}
		}
	}
}

func firstSignaled[T any](list []T, is func(T) bool) int {
	for i, v := range list {
		if is(v) {
			return i
		}
	}
	return -1
}

func TestSendFlowRefusesUnpostedSlots(t *testing.T) {
	f := newSendFlow(4, 1, 0)
	slot, _ := f.accept(false)
	require.Zero(t, f.covers(slot), "the request is staged and not posted")
	f.posted++
	require.EqualValues(t, 1, f.covers(slot))
	require.Zero(t, f.covers(slot+1))
	require.Zero(t, f.covers(1<<22))
	f.retire()
	require.Zero(t, f.covers(slot), "the request has completed before")
}

func TestSendFlowHasPlaceForAProbe(t *testing.T) {
	f := newSendFlow(4, 4, 0)
	for range 4 {
		require.False(t, f.full())
		f.accept(false)
	}
	require.True(t, f.full())
	f.probes++
	_, signaled := f.accept(true)
	require.True(t, signaled)
	require.True(t, f.full())
	require.LessOrEqual(t, int(f.outstanding()), f.size())
}

func TestSendFlowWritableOnce(t *testing.T) {
	f := newSendFlow(4, 1, 0)
	for range 4 {
		f.accept(false)
	}
	f.posted = f.head
	require.False(t, f.writable(), "no send was refused")
	f.wanted = 1
	f.retire()
	require.False(t, f.writable(), "less than half of the queue is free")
	f.retire()
	require.True(t, f.writable())
	require.False(t, f.writable())
}

// TestSendFlowWritableForMany checks that OnWritable waits until there is room for all wanted
// requests, and that requests without a completion are noticed.
func TestSendFlowWritableForMany(t *testing.T) {
	f := newSendFlow(8, 8, 0)
	for range 6 {
		f.accept(false)
	}
	f.posted = f.head
	require.EqualValues(t, 2, f.room())
	f.wanted = 6
	require.True(t, f.stuck(), "none of the requests is signaled")
	f.accept(true)
	require.False(t, f.stuck())
	f.posted = f.head
	for range 4 {
		f.retire()
	}
	require.False(t, f.writable(), "there is room for 5 requests")
	f.retire()
	require.True(t, f.writable())
	require.False(t, f.stuck())
}

// TestSendFlowRetiresStaged checks that retire() completes a request that was never
// posted.
func TestSendFlowRetiresStaged(t *testing.T) {
	f := newSendFlow(4, 1, 0)
	f.accept(false)
	f.accept(false)
	f.posted++
	f.retire()
	f.retire()
	require.Zero(t, f.outstanding())
	require.Zero(t, f.staged())
	require.Zero(t, f.inFlight())
}

// accept takes a slot and counts its request.
func (f *sendFlow) accept(signal bool) (slot uint32, signaled bool) {
	slot, signaled = f.next(signal)
	f.accepted(signaled)
	return slot, signaled
}

// size returns the number of slots.
func (f *sendFlow) size() int { return int(f.mask) + 1 }

// TestSendRequests checks that the ring begins small, and keeps the outstanding requests
// when it grows and when their numbers wrap.
func TestSendRequests(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, limit := range []int{1, 5, 63} {
		f := newSendFlow(limit, 1, 0)
		f.tail = math.MaxUint32 - 20
		f.posted, f.head = f.tail, f.tail
		var s sendRequests
		var added, retired uint64
		for range 1000 {
			if rng.IntN(9) > 3 && f.outstanding() <= uint32(limit) {
				slot, signaled := f.next(true)
				*s.add(&f, slot) = sendRequest{tag: added}
				f.accepted(signaled)
				f.posted++
				added++
			} else if f.outstanding() > 0 {
				require.Equal(t, retired, s.at(f.retire()).tag)
				retired++
			}
			require.LessOrEqual(t, len(s.ring), max(initialRequests, 2*int(f.outstanding()), f.size()))
		}
		require.Greater(t, retired, uint64(100))
	}
	f := newSendFlow(63, 16, 0)
	var s sendRequests
	slot, _ := f.next(false)
	s.add(&f, slot)
	require.Len(t, s.ring, initialRequests)
}

// A fakeQP records the inline data and addresses of its requests. The field room limits
// each PostSend.
type fakeQP struct {
	verbs.QP
	room     int
	recorded []string
}

var errNoRoom = errors.New("no room")

func (s *fakeQP) PostSend(wrs []verbs.SendWR) (n int, err error) {
	for _, wr := range wrs {
		if n == s.room {
			return n, errNoRoom
		}
		n++
		s.recorded = append(s.recorded, string(wr.Inline))
		for _, sge := range wr.SGEs {
			s.recorded = append(s.recorded, string(rune('0'+sge.Addr)))
		}
	}
	return n, nil
}

// TestSendBatch checks that requests in a batch do not change when others are added.
// Refused requests stay in the batch.
func TestSendBatch(t *testing.T) {
	var batch sendBatch
	stage := func(text string, addr uint64) {
		wr := batch.addRequest(0, verbs.OpSend, 0)
		wr.Inline, wr.SGEs = batch.copyBytes([]byte(text)), batch.sgeList(verbs.SGE{Addr: addr})
	}
	stage("first", 1)
	stage("second", 2)
	stage("third", 3)

	qp := &fakeQP{room: 1}
	n, err := batch.post(qp)
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, errNoRoom)
	require.Equal(t, []string{"first", "1"}, qp.recorded)

	stage("fourth", 4)
	qp = &fakeQP{room: 3}
	n, err = batch.post(qp)
	require.Equal(t, 3, n)
	require.NoError(t, err)
	require.Equal(t, []string{"second", "2", "third", "3", "fourth", "4"}, qp.recorded)
}

// A directQP takes messages at once.
type directQP struct {
	fakeQP
	doorbells int
}

func (q *directQP) Doorbell() { q.doorbells++ }

// TestSendQueuePost checks when post rings a doorbell, and which requests it counts.
func TestSendQueuePost(t *testing.T) {
	qp := &directQP{fakeQP: fakeQP{room: 10}}
	q := sendQueue{flow: newSendFlow(8, 4, 0)}
	post := func(doorbells, requests uint64) {
		t.Helper()
		gotDoorbells, gotRequests, err := q.post(qp)
		require.NoError(t, err)
		require.Equal(t, []uint64{doorbells, requests}, []uint64{gotDoorbells, gotRequests})
	}
	post(0, 0)
	q.unrung = 2 // The device has taken two messages.
	post(1, 2)
	post(0, 0)
	require.Equal(t, 1, qp.doorbells)
	q.unrung = 1
	slot, _ := q.flow.next(true)
	q.stage(7, slot, verbs.OpWrite)
	post(1, 2)
	require.Equal(t, 1, qp.doorbells, "posting a request rings the doorbell")
	require.Zero(t, q.flow.staged())
}

// TestSendQueueRelease checks that release frees what outstanding requests use, whether they
// were posted or not.
func TestSendQueueRelease(t *testing.T) {
	d := newTestDevice(&Loop{}, &memorytest.PD{}, 64)
	q := sendQueue{flow: newSendFlow(8, 4, 0)}
	uses := make([]regionUse, 3)
	var buffers []*Buffer
	for range 3 {
		slot, _ := q.flow.next(true)
		wr, r := q.stage(uint64(slot), slot, verbs.OpSend)
		b, err := d.smallBuffer()
		require.NoError(t, err)
		b.length = 5
		q.setBuffer(wr, r, b)
		require.EqualValues(t, 5, wr.SGEs[0].Length)
		for i := range uses {
			if q.uses.begin(&r.use, &uses[i]) {
				r.more++
			}
		}
		buffers = append(buffers, b)
	}
	q.flow.posted += 2
	q.release()
	require.Zero(t, q.flow.outstanding())
	for i := range uses {
		require.Zero(t, uses[i].underWay)
		require.Equal(t, bufferFree, buffers[i].state)
	}
}
