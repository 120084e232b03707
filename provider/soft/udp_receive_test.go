//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// One packet is asked for at a time, until they come faster than that; and again
// when a batch was but one.
func TestUDPReceivesInCrowds(t *testing.T) {
	r := newUDPRig(t, "127.9.0.1", "127.9.0.2")
	take := func(packets int, crowd bool) {
		t.Helper()
		require.Equal(t, packets, r.recv.receive(&counter{}))
		require.Equal(t, crowd, r.recv.crowd)
	}
	for range 7 {
		r.queue(10)
	}
	r.send.flush()
	take(1, false)
	take(1, false)
	take(1, true)
	take(4, true)
	take(0, true)
	r.queue(10)
	r.send.flush()
	take(1, false)
	take(0, false)
}

// A datagram that is longer than any packet is dropped, whichever call brings it.
func TestUDPTooLong(t *testing.T) {
	for _, crowd := range []bool{false, true} {
		r := newUDPRig(t, "127.9.0.1", "127.9.0.2")
		r.recv.crowd = crowd
		to := unix.SockaddrInet4{Port: int(r.recv.local.Port()), Addr: r.recv.local.Addr().As4()}
		require.NoError(t, unix.Sendto(r.send.all.fd, make([]byte, packetRoom+1), 0, &to))
		require.Equal(t, 1, r.recv.receive(&counter{}))
		require.EqualValues(t, 1, r.count(rcvdMalformedErr))
		require.Zero(t, r.count(rcvdPkts))
		r.queue(10)
		r.send.flush()
		require.Equal(t, []int{10}, r.received().sizes, "the next one is whole")
	}
}
