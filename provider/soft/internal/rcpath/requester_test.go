//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRCRequesterPositions(t *testing.T) {
	var r requester
	r.sent(1, true)
	r.sent(8, true) // A READ whose response has 8 packets was sent.
	require.Equal(t, requester{seq: 9, sentEnd: 9}, r)
	r.acknowledge(3)
	require.EqualValues(t, 6, r.unacked())
	r.readsInFlight, r.sinceAckRequest = 1, 4
	r.goBack()
	require.Equal(t, requester{ackedEnd: 3, seq: 3, sentEnd: 9}, r)
	require.True(t, r.wasSent())
	r.sent(1, true)
	r.acknowledge(7)
	require.Equal(t, requester{ackedEnd: 7, seq: 7, sentEnd: 9}, r, "acknowledged packets are not sent again")
	r.sent(2, true)
	require.False(t, r.wasSent())
}

func TestRCRequesterCountsSinceAckRequest(t *testing.T) {
	var r requester
	for _, want := range []int{1, 2, 3} {
		r.sent(1, false)
		require.Equal(t, want, r.sinceAckRequest)
	}
	r.sent(1, true)
	require.Zero(t, r.sinceAckRequest)
}

func TestRCRequesterReads(t *testing.T) {
	r := requester{ackedEnd: 4, readsInFlight: 1}
	require.EqualValues(t, 4, r.responseFrom(sendAt(2, 0)), "a part of the response has arrived")
	require.EqualValues(t, 6, r.responseFrom(sendAt(6, 0)))
	r.readDone()
	r.readDone()
	require.Zero(t, r.readsInFlight, "the second response was that of a request before goBack")
}
