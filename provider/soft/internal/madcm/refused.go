//go:build linux

package madcm

import (
	"hash/maphash"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
)

// refusedRequests stores the answers to recently refused requests. If a copy of a refused
// request arrives, the stored answer is sent again, and the application does not get the
// copy.
//
// A keyed hash of the source selects the bucket in which an answer is stored. Therefore a
// flood from few sources replaces only the answers in a few buckets.
type refusedRequests struct {
	seed    maphash.Seed
	buckets [refusedBuckets]refusedBucket
}

// At most 512 answers of 256 bytes are stored. The numbers are arbitrary.
const (
	refusedBuckets   = 64
	refusedPerBucket = 8
)

type refusedBucket struct {
	requests []refusedRequest
	next     int // index of the entry that is replaced next; used when the bucket is full
}

type refusedRequest struct {
	key    peerKey
	until  time.Time
	answer wire.MAD
}

func newRefusedRequests() *refusedRequests { return &refusedRequests{seed: maphash.MakeSeed()} }

func (r *refusedRequests) bucket(key peerKey) *refusedBucket {
	return &r.buckets[hashSource(r.seed, key.from)%refusedBuckets]
}

// add stores the answer to a refused request. The answer expires after RequestTimeout,
// when the peer no longer retransmits the request. The number in the parameter key is
// the peer's communication ID.
func (r *refusedRequests) add(key peerKey, answer *wire.MAD, now time.Time) {
	p := r.bucket(key)
	refused := refusedRequest{key: key, until: now.Add(connmgr.RequestTimeout), answer: *answer}
	if len(p.requests) < refusedPerBucket {
		p.requests = append(p.requests, refused)
		return
	}
	p.requests[p.next] = refused
	p.next = (p.next + 1) % refusedPerBucket
}

// answer returns the stored answer to a request, or nil.
func (r *refusedRequests) answer(key peerKey, now time.Time) *wire.MAD {
	p := r.bucket(key)
	for i := range p.requests {
		if q := &p.requests[i]; q.key == key && now.Before(q.until) {
			return &q.answer
		}
	}
	return nil
}
