package providertest

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func orderCases() []testCase {
	return []testCase{
		{"thousands of messages in both directions", thousands},
		{"mixed operations complete in order", mixedOrder},
		{"several connections", severalConnections},
		{"posted from several goroutines", concurrentPosts},
	}
}

// A stream sends numbered messages of different lengths from one end to the other.
type stream struct {
	from, to *end
	total    int
	// largest number of outstanding messages, and number of receive buffers
	maxOutstanding       int
	sent, acked, arrived int
}

const slotSize = 4096

func newStream(from, to *end, total int) *stream {
	s := &stream{from: from, to: to, total: total, maxOutstanding: 16}
	for i := range s.maxOutstanding {
		to.recv(uint64(i), s.recvSlot(i))
	}
	return s
}

// recvSlot returns the receive buffer of message i.
func (s *stream) recvSlot(i int) verbs.SGE {
	return s.to.sge(memorySize/2+i%s.maxOutstanding*slotSize, slotSize)
}

func (s *stream) length(i int) int { return 8 + i*7919%(slotSize-8) }

// turn posts as many messages as possible, and checks the completions.
func (s *stream) turn() {
	for s.sent < s.total && s.sent-s.acked < s.maxOutstanding {
		off := s.sent % s.maxOutstanding * slotSize
		fill(s.from.bytes(off, s.length(s.sent)), uint64(s.sent))
		binary.BigEndian.PutUint64(s.from.bytes(off, 8), uint64(s.sent))
		s.from.post(send(uint64(s.sent), s.from.sge(off, s.length(s.sent))))
		s.sent++
	}
	for _, wc := range s.from.sends.wcs {
		s.from.r.NoError(wc.Err())
		s.from.r.Equal(uint64(s.acked), wc.ID)
		s.acked++
	}
	s.from.sends.drop()
	for _, wc := range s.to.recvs.wcs {
		s.check(&wc)
	}
	s.to.recvs.drop()
}

func (s *stream) check(wc *verbs.WC) {
	r := s.to.r
	r.NoError(wc.Err())
	i := s.arrived
	r.Equal(uint64(i), wc.ID, "receives complete in the order of posting")
	r.Equal(uint32(s.length(i)), wc.ByteLen)
	got := s.to.bytes(memorySize/2+i%s.maxOutstanding*slotSize, s.length(i))
	want := filled(s.length(i), uint64(i))
	binary.BigEndian.PutUint64(want, uint64(i))
	r.Equal(want, got, "message %d", i)
	s.arrived++
	if next := i + s.maxOutstanding; next < s.total {
		s.to.recv(uint64(next), s.recvSlot(next))
	}
}

func (s *stream) done() bool { return s.acked == s.total && s.arrived == s.total }

// run runs several streams until all are done.
func (r *rig) run(streams ...*stream) {
	r.t.Helper()
	r.until("all messages", func() bool {
		done := true
		for _, s := range streams {
			s.turn()
			done = done && s.done()
		}
		return done
	})
}

// messages returns how many messages a stream sends: n, or fewer with the flag -short.
func messages(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

func thousands(r *rig) {
	p := r.pair(nil)
	total := messages(5000)
	r.run(newStream(p.a, p.b, total), newStream(p.b, p.a, total))
}

func severalConnections(r *rig) {
	total := messages(300)
	var streams []*stream
	for i := range 8 {
		p := r.pair(func(a, b *plan) {
			if i%2 == 1 {
				a.vector, b.vector = b.vector, a.vector
			}
		})
		streams = append(streams, newStream(p.a, p.b, total), newStream(p.b, p.a, total))
	}
	r.run(streams...)
}

// mixedOrder posts requests with different operations. The completions must come in order
// (IBTA vol. 1, 10.8.5).
func mixedOrder(r *rig) {
	p := r.pair(nil)
	for range 20 {
		p.b.recv(0, p.b.sge(0, 5000))
		batch := []verbs.SendWR{
			p.a.remote(verbs.OpRead, 0, p.b, 10000, p.a.sge(10000, 9000)),
			send(1, p.a.sge(0, 5000)),
			p.a.remote(verbs.OpWrite, 2, p.b, 10000, p.a.sge(0, 64)),
			p.a.remote(verbs.OpRead, 3, p.b, 10000, p.a.sge(20000, 1)),
		}
		if r.dev.Caps().Atomics {
			batch = append(batch, p.a.faa(4, p.b, 40000, 40000, 1), p.a.cas(5, p.b, 40008, 40008, 0, 0))
		}
		batch = append(batch, p.a.remote(verbs.OpWrite, 6, p.b, 30000, p.a.sge(0, 6000)))
		var ids []uint64
		for _, wr := range batch {
			ids = append(ids, wr.ID)
		}
		p.a.post(batch...)
		p.a.sends.inOrder(ids...)
		p.b.recvs.inOrder(0)
	}
}

// concurrentPosts posts to one queue pair from several goroutines. Every message must
// arrive once.
func concurrentPosts(r *rig) {
	if r.progress == verbs.ProgressManual {
		r.t.Skip("with manual progress one goroutine owns a queue pair")
	}
	const posters, each = 4, 8
	p := r.pair(nil)
	for i := range posters * each {
		p.b.recv(uint64(i), p.b.sge(slotSize*i, 8))
	}
	errs := make([]error, posters)
	var wg sync.WaitGroup
	for i := range posters {
		wg.Go(func() {
			for j := range each {
				id := i*each + j
				binary.BigEndian.PutUint64(p.a.bytes(8*id, 8), uint64(id))
				if _, err := p.a.qp.PostSend([]verbs.SendWR{send(uint64(id), p.a.sge(8*id, 8))}); err != nil {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		r.NoError(err)
	}
	seen := map[uint64]bool{}
	for i, wc := range p.b.recvs.succeed(posters * each) {
		r.Equal(uint64(i), wc.ID)
		seen[binary.BigEndian.Uint64(p.b.bytes(slotSize*i, 8))] = true
	}
	r.Len(seen, posters*each)
	p.a.sends.succeed(posters * each)
}
