//go:build linux

package udp

import "golang.org/x/sys/unix"

const (
	// mergedBatch is the largest number of datagrams that one system call receives while
	// the kernel merges packets. Their buffers fit the cache of a processor.
	mergedBatch = 4
	// mergedBufSize is the size in bytes of a buffer for merged packets, the largest
	// length of an IP packet.
	mergedBufSize = 1 << 16
	// A batch of manyDatagrams counts as a burst. Arbitrary.
	manyDatagrams = 4
	// The kernel begins to merge packets after this number of bursts. Arbitrary.
	firstMergeWait = 16
	// maxMergeWait limits merging.wait. Arbitrary.
	maxMergeWait = 1 << 16
	// The kernel stops to merge packets after this number of calls that have found no
	// merged packets. Arbitrary.
	maxUnmergedCalls = 256
)

// mergeState says whether the kernel merges the packets of a socket (udp(7), UDP_GRO).
type mergeState uint8

const (
	// mergeNever: the kernel or the owner of the socket does not allow merging.
	mergeNever mergeState = iota
	// mergeOff: the kernel passes each packet alone. A socket of a shard begins in this
	// state. Bursts lead to mergeOn.
	mergeOff
	// mergeOn: the kernel may merge packets of equal length and source to one datagram. A
	// call of recvmsg(2) then takes 170 ns longer than recvfrom(2), which does not report
	// the length of the packets. So calls without merged packets lead to mergeOff.
	mergeOn
)

// A merging decides when the kernel merges the packets of a socket.
type merging struct {
	state mergeState
	// calls counts towards the next change of the state: bursts in mergeOff, and calls in
	// a row that have found no merged packets in mergeOn.
	calls int
	wait  int // number of bursts in mergeOff, from firstMergeWait to maxMergeWait
}

// canMerge reports whether the kernel can merge the packets of the socket fd. It makes
// the kernel stop to merge them.
func canMerge(fd int) bool { return setMerging(fd, false) }

// setMerging makes the kernel merge the packets of the socket fd, or stop to do so. It
// returns false on failure.
func setMerging(fd int, on bool) bool {
	value := 0
	if on {
		value = 1
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, value) == nil
}

// received is called after each call that has read datagrams, with their number and the
// number of packets in them. It returns true if the state has changed.
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

// stop leads from mergeOn to mergeOff, if the parameter now is true. The next period in
// mergeOff is twice as long as the last one, unless packets are merged again.
func (m *merging) stop(now bool) (changed bool) {
	if !m.enter(mergeOff, now) {
		return false
	}
	m.wait = min(2*m.wait, maxMergeWait)
	return true
}

// enter changes the state if the parameter now is true.
func (m *merging) enter(state mergeState, now bool) (changed bool) {
	if now {
		m.state, m.calls = state, 0
	}
	return now
}
