package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

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
		wr := batch.addRequest()
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
