package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// sharedRecvBatch is how many staged buffers the method stage posts at once. Arbitrary.
const sharedRecvBatch = 64

// A sharedRecv is a shared receive queue and its staged buffers. They complete in any
// order, so their work-request ids are indexes in slab.all.
type sharedRecv struct {
	srq   verbs.SRQ
	wrs   []verbs.RecvWR   // receive requests of the staged buffers
	conns map[uint32]*Conn // connections by the number of their queue pair
}

// stage adds a buffer, and posts the staged buffers if there are sharedRecvBatch of them.
func (q *sharedRecv) stage(b *Buffer) error {
	b.state = bufferPosted
	q.wrs = append(q.wrs, verbs.RecvWR{ID: uint64(b.index), SGEs: b.sge[:]})
	if len(q.wrs) < sharedRecvBatch {
		return nil
	}
	return q.post()
}

// post posts the staged buffers. After an error, buffers that were not posted stay
// staged.
func (q *sharedRecv) post() error {
	n, err := q.srq.PostRecv(q.wrs)
	q.wrs = q.wrs[:copy(q.wrs, q.wrs[n:])]
	return err
}
