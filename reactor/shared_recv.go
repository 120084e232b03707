package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// sharedRecvBatch is how many buffers a shared receive queue may be short of
// before the end of the turn.
const sharedRecvBatch = 64

// A sharedRecv is a shared receive queue and what is to be posted to it. Its
// buffers complete in any order, so their ids hold the buffer's index.
type sharedRecv struct {
	srq   verbs.SRQ
	wrs   []verbs.RecvWR // staged
	conns map[uint32]*Conn
}

// stage adds a buffer, and posts when there is a batch.
func (q *sharedRecv) stage(b *Buffer) error {
	b.state = bufferPosted
	q.wrs = append(q.wrs, verbs.RecvWR{ID: uint64(b.index), SGEs: b.sge[:]})
	if len(q.wrs) < sharedRecvBatch {
		return nil
	}
	return q.post()
}

// post hands over what is staged; with an error the rest stays staged.
func (q *sharedRecv) post() error {
	n, err := q.srq.PostRecv(q.wrs)
	q.wrs = q.wrs[:copy(q.wrs, q.wrs[n:])]
	return err
}
