//go:build linux

package udpath

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// lastNumber is the number of the last datagram to a sink. The low 9 bits of a number
// select the part of the memory region that has the payload; see numberedDatagram.
const lastNumber = 1<<30 | 511

// sinkBuffers is the number of receive buffers of a sink.
const sinkBuffers = 256

// peerDatagramSink is the function of a peer process. It prints its queue pair number,
// and receives datagrams in order. When the datagram lastNumber arrives, it prints how
// many datagrams came before.
func peerDatagramSink(t *testing.T, _ string) {
	e := newDatagramEnd(t, newLocalDevice(t, -1, access.AnyUser), verbs.ProgressManual)
	for i := range sinkBuffers {
		e.Recv(uint64(i), i*8192, 8192)
	}
	peerproc.Say(strconv.Itoa(int(e.QP.Num())))
	go func() {
		peerproc.Linger()
		os.Exit(0)
	}()
	for count, last, idle := 0, -1, 0; ; {
		n, err := e.CQ.Poll(e.WC)
		require.NoError(t, err)
		for _, wc := range e.WC[:n] {
			num := int(binary.BigEndian.Uint32(e.MR.Bytes()[wc.ID*8192+40:]))
			require.Greater(t, num, last, "in order")
			e.Recv(wc.ID, int(wc.ID)*8192, 8192)
			if last = num; num < lastNumber {
				count++
				continue
			}
			peerproc.Say(fmt.Sprint(count))
			count, last = 0, -1
		}
		if idle++; n > 0 {
			idle = 0
		} else if idle >= idlePolls {
			time.Sleep(time.Millisecond)
		}
	}
}

// peerDatagramSource is the function of a peer process. It sends one datagram to a queue
// pair, and prints how many counters of its device are not 0. The parameter address is
// the queue pair number.
func peerDatagramSource(t *testing.T, address string) {
	d := newLocalDevice(t, -1, access.AnyUser)
	e := newDatagramEnd(t, d, verbs.ProgressManual)
	num, err := strconv.Atoi(address)
	require.NoError(t, err)
	sendNumbered(e, handleFor(e, "127.0.0.1"), uint32(num), 0, 1, 0)
	peerproc.Say(fmt.Sprint(len(d.Counted())))
	peerproc.Linger()
}

// peerDatagramDestNoDescriptors is the function of a peer process. It sends to a new
// destination when no descriptor is free.
func peerDatagramDestNoDescriptors(t *testing.T, _ string) {
	d := newLocalDevice(t, -1)
	e := newDatagramEnd(t, d, verbs.ProgressManual)
	to, dests := handleFor(e, "127.0.0.1"), d.local(e).dests
	var nums [3]uint32
	for i := range nums {
		nums[i] = e.QP.Num() ^ 0x800000 ^ uint32(i)<<8
		nonReadingQP(t, nums[i])
	}
	sendNumbered(e, to, nums[0], 0, 1, 0)
	sendNumbered(e, to, nums[1], 1, 1, 0)
	peerproc.ExhaustDescriptors(t)
	sendNumbered(e, to, nums[2], 2, 1, 0)
	require.Empty(t, d.Counted())
	require.Len(t, dests, 2)
	require.Contains(t, dests, nums[2], "it got the descriptor of another destination")

	for _, dest := range dests {
		dest.remove()
	}
	peerproc.TakeDescriptors(t)
	sendNumbered(e, to, nums[0], 3, 1, 0)
	require.Equal(t, map[string]uint64{"datagram_unsent": 1}, d.Counted())
	peerproc.Say("done")
	peerproc.Linger()
}

// If a sender has no free descriptor for a new destination, it closes the connection to
// another destination. If there is none to close, the sender drops and counts the
// datagram.
func TestDatagramDestsOutOfDescriptors(t *testing.T) {
	line, kill := peerproc.Start(t, "datagram-dest-full", "")
	require.Equal(t, "done", line())
	kill()
}

// startSink starts peerDatagramSink as the user uid. It returns the queue pair number,
// and functions to signal the process and read a line.
func startSink(t *testing.T, uid uint32) (num uint32, signal func(syscall.Signal), line func() string) {
	cmd := peerproc.Command("datagram-sink", "")
	cmd.SysProcAttr = nil
	if uid != uint32(os.Geteuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	line, _ = peerproc.Run(t, cmd)
	n, err := strconv.Atoi(line())
	require.NoError(t, err)
	return uint32(n), func(s syscall.Signal) { require.NoError(t, cmd.Process.Signal(s)) }, line
}

// await polls an end until the other process prints a number, and returns this number.
func awaitLine(e *qptest.End, line func() string) int {
	e.T.Helper()
	got := make(chan string, 1)
	go func() { got <- line() }()
	for {
		select {
		case text := <-got:
			n, err := strconv.Atoi(text)
			require.NoError(e.T, err)
			return n
		default:
			_, err := e.CQ.Poll(nil)
			require.NoError(e.T, err)
		}
	}
}

// The sender queues datagrams that do not fit into the socket. All of them arrive at
// another process.
func TestDatagramBurstToProcess(t *testing.T) {
	for name, progress := range map[string]verbs.Progress{"manual": verbs.ProgressManual, "automatic": verbs.ProgressAuto} {
		t.Run(name, func(t *testing.T) {
			num, _, line := startSink(t, uint32(os.Geteuid()))
			d := newLocalDevice(t, -1)
			e := newDatagramEnd(t, d, progress)
			to := handleFor(e, "127.0.0.1")
			const n = 60
			burst := make([]verbs.SendWR, 0, n+1)
			for i := range n {
				burst = append(burst, numberedDatagram(e, to, num, i, qp.DatagramMTU-4))
			}
			burst = append(burst, numberedDatagram(e, to, num, lastNumber, 0))
			_, err := e.QP.PostSend(burst)
			require.NoError(t, err)
			e.Wait(n + 1)
			require.Equal(t, n, awaitLine(e, line))
			require.Empty(t, d.Counted())
		})
	}
}

// Datagrams for a stopped process are first queued, and then dropped and counted.
// Datagrams to other destinations are not delayed.
func TestDatagramStoppedProcess(t *testing.T) {
	num, signal, line := startSink(t, uint32(os.Geteuid()))
	d := newLocalDevice(t, -1)
	e, other := newDatagramEnd(t, d, verbs.ProgressManual), newDatagramEnd(t, d, verbs.ProgressManual)
	to := handleFor(e, "127.0.0.1")
	signal(syscall.SIGSTOP)
	const n = 2000
	sendNumbered(e, to, num, 0, n, qp.DatagramMTU-4)
	other.Recv(1, 0, 100)
	sendNumbered(e, to, other.QP.Num(), 0, 1, 0)
	other.Wait(1, e)
	unsent := d.Counted()["datagram_unsent"]
	require.Positive(t, unsent)
	signal(syscall.SIGCONT)
	for dest := d.local(e).dests[num]; !dest.queue.empty(); {
		_, err := e.CQ.Poll(nil)
		require.NoError(t, err)
	}
	sendNumbered(e, to, num, lastNumber, 1, 0)
	require.EqualValues(t, n-unsent, awaitLine(e, line))
	require.Equal(t, map[string]uint64{"datagram_unsent": unsent}, d.Counted())
}

// Datagrams from and to a user who is not in Config.AllowedUsers do not arrive.
func TestDatagramsOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process of another user")
	}
	const otherUser = 12345
	num, _, _ := startSink(t, otherUser)
	d := newLocalDevice(t, -1)
	e := newDatagramEnd(t, d, verbs.ProgressManual)
	sendNumbered(e, handleFor(e, "127.0.0.1"), num, lastNumber, 1, 0)
	require.Equal(t, map[string]uint64{"datagram_unsent": 1, "datagram_user_refused": 1}, d.Counted())

	cmd := peerproc.Command("datagram-source", fmt.Sprint(e.QP.Num()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	line, _ := peerproc.Run(t, cmd)
	require.Equal(t, "0", line(), "the peer has sent the datagram")
	e.Recv(1, 0, 100)
	require.Empty(t, e.PollN(idlePolls))
	require.Equal(t, map[string]uint64{"datagram_unsent": 1, "datagram_user_refused": 2}, d.Counted())
}
