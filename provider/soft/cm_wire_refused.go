//go:build linux

package soft

import (
	"hash/maphash"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// refusedRequests remembers the requests that were refused last, with the answer. A
// copy that comes when the ID of the first is closed is refused again; otherwise the
// application would be asked once more about the same request.
//
// The memory is bounded. Each source has a place for its last few, which it shares
// with the sources of the same hash, so a flood from one leaves those of most others
// alone.
type refusedRequests struct {
	seed   maphash.Seed
	places [refusedPlaces]refusedPlace
}

// The figures are arbitrary: 512 answers of 256 bytes at the most.
const (
	refusedPlaces   = 64
	refusedPerPlace = 8
)

type refusedPlace struct {
	requests []refusedRequest
	next     int // the one to be forgotten when there are refusedPerPlace
}

type refusedRequest struct {
	key    peerKey
	until  time.Time
	answer wire.MAD
}

func newRefusedRequests() *refusedRequests { return &refusedRequests{seed: maphash.MakeSeed()} }

func (r *refusedRequests) place(key peerKey) *refusedPlace {
	return &r.places[hashSource(r.seed, key.from)%refusedPlaces]
}

// add remembers a request, by the communication id of the peer, for as long as a peer
// repeats one.
func (r *refusedRequests) add(key peerKey, answer *wire.MAD, now time.Time) {
	p := r.place(key)
	refused := refusedRequest{key: key, until: now.Add(requestTimeout), answer: *answer}
	if len(p.requests) < refusedPerPlace {
		p.requests = append(p.requests, refused)
		return
	}
	p.requests[p.next] = refused
	p.next = (p.next + 1) % refusedPerPlace
}

// answer is what a request was answered with, or nil.
func (r *refusedRequests) answer(key peerKey, now time.Time) *wire.MAD {
	p := r.place(key)
	for i := range p.requests {
		if q := &p.requests[i]; q.key == key && now.Before(q.until) {
			return &q.answer
		}
	}
	return nil
}
