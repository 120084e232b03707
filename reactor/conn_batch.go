package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// A sendBatch is the requests of one connection that are staged, and what they
// point to. All of it is used again once they are posted, and as large as the most
// that one turn has sent: on most connections that is a message or two.
type sendBatch struct {
	wrs   []verbs.SendWR
	sges  []verbs.SGE
	bytes []byte
}

// next adds a request, which has what an earlier one has left in it.
func (s *sendBatch) addRequest() *verbs.SendWR {
	n := len(s.wrs)
	if n == cap(s.wrs) {
		s.wrs = append(s.wrs, verbs.SendWR{})
	}
	s.wrs = s.wrs[:n+1]
	return &s.wrs[n]
}

// copyBytes is a copy of b, for the request to carry inline: the caller may change b
// before the doorbell.
func (s *sendBatch) copyBytes(b []byte) []byte {
	at := len(s.bytes)
	s.bytes = append(s.bytes, b...)
	return s.bytes[at:]
}

// list is a list of one piece of memory.
func (s *sendBatch) sgeList(sge verbs.SGE) []verbs.SGE {
	at := len(s.sges)
	s.sges = append(s.sges, sge)
	return s.sges[at:]
}

// post hands the requests to qp, and returns how many it took. With an error the
// others stay.
func (s *sendBatch) post(qp verbs.QP) (n int, err error) {
	if n, err = qp.PostSend(s.wrs); err != nil {
		s.wrs = s.wrs[:copy(s.wrs, s.wrs[n:])]
		return n, err
	}
	s.wrs = s.wrs[:0]
	s.sges = s.sges[:0]
	s.bytes = s.bytes[:0]
	return n, nil
}
