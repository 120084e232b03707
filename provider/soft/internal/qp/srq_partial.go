//go:build linux

package qp

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/access"

const (
	// partialShares is how many times the share of a source fits into an SRQ. Arbitrary.
	partialShares = 8
	// partialAmple is the number of buffers for each queue pair from which on there are no
	// shares. A queue pair has at most one incomplete message, so all together hold at most
	// a quarter of the buffers. The reactor posts four buffers for each connection by
	// default, up to 1024 in all.
	partialAmple = 4
)

// partialBuffers has the incomplete messages in the buffers of an SRQ. A message is
// incomplete while only a part of its fragments has arrived. A message of one fragment is
// never incomplete.
//
// Without a limit, a peer with many connections could occupy all buffers. So the
// incomplete messages of a source may hold 1/partialShares of the buffers that those of
// other sources do not hold. The first fragment of a further one is refused with an RNR
// NAK. If n sources hold as many as they may, about 3/4 * (7/8)^n of the buffers are
// left.
//
// A message stalls if it makes no progress during partialLimit. It then waits in the list
// stalled. If a message of the same source is refused, or the SRQ has no buffer for any
// message, the connection of one stalled message ends.
type partialBuffers struct {
	unlimited bool // true if no source has a limit; see verbs.SRQAttr.BuffersPerQP
	held      int  // number of buffers that incomplete messages hold
	shares    map[access.Source]*partialShare
	stalled   []*QP // queue pairs with a stalled message, in the order of stalling
}

// A partialShare has the incomplete messages of one source in the buffers of one SRQ.
type partialShare struct {
	source  access.Source
	refs    int // number of queue pairs that have this share
	held    int // number of buffers
	stalled int // number of stalled messages
}

// join returns the share of a source for one more queue pair.
func (b *partialBuffers) join(source access.Source) *partialShare {
	s := b.shares[source]
	if s == nil {
		s = &partialShare{source: source}
		if b.shares == nil {
			b.shares = make(map[access.Source]*partialShare)
		}
		b.shares[source] = s
	}
	s.refs++
	return s
}

// leave undoes join for one queue pair.
func (b *partialBuffers) leave(s *partialShare) {
	if s.refs--; s.refs == 0 {
		delete(b.shares, s.source)
	}
}

// allows reports whether another incomplete message of a source may take a buffer. The
// parameter size is the number of buffers of the SRQ, and qps the number of its queue
// pairs. Each source may have one message.
func (b *partialBuffers) allows(s *partialShare, size, qps int) bool {
	return s.held == 0 || partialAmple*qps <= size || s.held < (size-(b.held-s.held))/partialShares || b.unlimited
}

// reclaim ends the connection of the message that has stalled longest. If the parameter
// is not nil, only messages of this source count.
func (b *partialBuffers) reclaim(s *partialShare) {
	if s != nil && s.stalled == 0 {
		return
	}
	for _, q := range b.stalled {
		if s == nil || q.partial.share == s {
			q.endStalled()
			return
		}
	}
}
