//go:build linux

package udp

import "golang.org/x/sys/unix"

const (
	// mergedBatch is the largest number of datagrams that one system call receives while
	// the kernel merges packets. The buffers of this number of datagrams fit into the cache
	// of a processor.
	mergedBatch = 4
	// mergedBufSize is the size in bytes of a buffer for merged packets. It is the
	// largest length of an IP packet.
	mergedBufSize = 1 << 16
	// manyDatagrams is the smallest number of datagrams in a batch that counts as a
	// burst. Arbitrary.
	manyDatagrams = 4
	// firstMergeWait is the number of bursts after which merging begins for the first
	// time. Arbitrary.
	firstMergeWait = 16
	// maxMergeWait limits merging.wait. Arbitrary.
	maxMergeWait = 1 << 16
	// maxUnmergedCalls is the number of calls in a row without merged packets after
	// which merging ends. Arbitrary.
	maxUnmergedCalls = 256
)

// mergeState says whether the kernel merges the packets of a socket (udp(7), UDP_GRO).
type mergeState uint8

const (
	// mergeNever: the kernel or the owner of the socket does not allow merging.
	mergeNever mergeState = iota
	// mergeOff: the kernel passes each packet alone. A socket of a shard begins in this
	// state. Several bursts change the state to mergeOn.
	mergeOff
	// mergeOn: the kernel may merge packets of equal length and source into one datagram.
	// Only recvmsg(2) reports the length of the merged packets, and it takes 170 ns longer
	// than recvfrom(2). So many calls without merged packets change the state to mergeOff.
	mergeOn
)

// A merging decides when the kernel merges the packets of a socket.
type merging struct {
	state mergeState
	// number of bursts in the state mergeOff; number of calls in a row without merged
	// packets in the state mergeOn
	calls int
	wait  int // number of bursts that lead from mergeOff to mergeOn
}

// canMerge reports whether the kernel can merge the packets of the socket fd. After the
// call, merging is off.
func canMerge(fd int) bool { return setMerging(fd, false) }

// setMerging turns the merging of packets of the socket fd on or off. It returns false
// on failure.
func setMerging(fd int, on bool) bool {
	value := 0
	if on {
		value = 1
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, value) == nil
}

// received updates the state after a system call that has read datagrams. The parameter
// packets is the number of packets in the datagrams. The result is true if the state has
// changed.
func (m *merging) received(datagrams, packets int) (changed bool) {
	switch {
	case m.state == mergeNever:
		return false
	case m.state == mergeOff:
		if datagrams >= manyDatagrams {
			m.calls++
		}
		return m.enter(mergeOn, m.calls >= m.wait)
	case packets > datagrams:
		m.calls, m.wait = 0, firstMergeWait
		return false
	}
	m.calls++
	return m.stop(m.calls >= maxUnmergedCalls)
}

// stop changes the state from mergeOn to mergeOff, and doubles the number of bursts
// before merging begins again. If the parameter now is false, stop does nothing.
func (m *merging) stop(now bool) (changed bool) {
	if !m.enter(mergeOff, now) {
		return false
	}
	m.wait = min(2*m.wait, maxMergeWait)
	return true
}

// enter changes the state. If the parameter now is false, enter does nothing.
func (m *merging) enter(state mergeState, now bool) (changed bool) {
	if now {
		m.state, m.calls = state, 0
	}
	return now
}
