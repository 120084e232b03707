package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// A sendBatch holds the unposted send requests of one connection. Its slices are reused.
type sendBatch struct {
	wrs   []verbs.SendWR
	sges  []verbs.SGE // scatter/gather lists of the requests in wrs
	bytes []byte      // memory for the inline data of the requests in wrs
}

// addRequest appends a request and returns it. The caller must set all fields, because
// the memory is reused.
func (s *sendBatch) addRequest() *verbs.SendWR {
	n := len(s.wrs)
	if n == cap(s.wrs) {
		s.wrs = append(s.wrs, verbs.SendWR{})
	}
	s.wrs = s.wrs[:n+1]
	return &s.wrs[n]
}

// copyBytes returns a copy of b for inline data, because the application may change b
// before the request is posted.
func (s *sendBatch) copyBytes(b []byte) []byte {
	at := len(s.bytes)
	s.bytes = append(s.bytes, b...)
	return s.bytes[at:]
}

// sgeList returns a scatter/gather list whose only element is sge.
func (s *sendBatch) sgeList(sge verbs.SGE) []verbs.SGE {
	at := len(s.sges)
	s.sges = append(s.sges, sge)
	return s.sges[at:]
}

// post posts the requests to qp, and returns how many were posted. The others stay in
// the batch after an error.
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
