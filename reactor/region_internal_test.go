package reactor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUseQueue checks that uses leave the queue in the order in which they were added.
func TestUseQueue(t *testing.T) {
	var q useQueue
	uses := make([]regionUse, 5)
	added, ended := 0, 0
	for range 100 {
		for range 3 {
			uses[added%5].underWay++
			q.push(&uses[added%5])
			added++
		}
		for range 2 {
			u := &uses[ended%5]
			before := u.underWay
			q.end(1)
			require.Equal(t, before-1, u.underWay)
			ended++
		}
	}
	require.Len(t, q.ring, 128)
	q.end(added - ended)
	for i := range uses {
		require.Zero(t, uses[i].underWay)
	}
	for _, u := range q.ring {
		require.Nil(t, u)
	}
}
