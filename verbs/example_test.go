package verbs_test

import (
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This example connects two queue pairs of one device without the connection manager in
// package cm. Then the first queue pair writes into memory of the second queue pair.
func Example() {
	provider, err := soft.Open(nil) // soft implements RDMA devices in software.
	check(err)
	devices, err := provider.Devices()
	check(err)
	device := devices[0]
	pd, err := device.AllocPD()
	check(err)
	memory, err := pd.Alloc(&verbs.AllocAttr{Size: 64, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	check(err)
	queue, err := device.CreateCQ(&verbs.CQAttr{Depth: 4, Progress: verbs.ProgressManual})
	check(err)
	attr := &verbs.QPInitAttr{
		Type: verbs.QPTypeRC, SendCQ: queue, RecvCQ: queue,
		Caps: verbs.QPCaps{MaxSendWR: 1, MaxRecvWR: 1, MaxInline: 16},
	}
	a, err := pd.CreateQP(attr)
	check(err)
	b, err := pd.CreateQP(attr)
	check(err)
	connect(a, b)
	connect(b, a)

	_, err = a.PostSend([]verbs.SendWR{{
		ID: 7, Opcode: verbs.OpWrite, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("hello"),
		RemoteAddr: memory.Addr(), RKey: memory.RKey(),
	}})
	check(err)
	var wcs [4]verbs.WC
	for n := 0; n == 0; {
		n, err = queue.Poll(wcs[:])
		check(err)
	}
	check(wcs[0].Err())
	fmt.Printf("request %d wrote %q\n", wcs[0].ID, memory.Bytes()[:5])
	check(errors.Join(a.Close(), b.Close(), queue.Close(), memory.Close(), pd.Close(), provider.Close()))
	// Output: request 7 wrote "hello"
}

// connect moves qp through its states until qp is connected to peer. Both queue pairs are
// on the same device. For READs and atomics, MaxDestRdAtomic and MaxRdAtomic would have
// to be set too.
func connect(qp, peer verbs.QP) {
	const port = 1
	attr, err := qp.PD().Device().Port(port)
	check(err)
	q := verbs.QPAttr{
		Port: port, Access: verbs.AccessRemoteWrite, // The peer may use RDMA WRITE.
		AH: verbs.AHAttr{Port: port, DestGID: attr.GIDs[0]}, DestQPN: peer.Num(), PathMTU: attr.ActiveMTU,
		MinRNRTimer: 12, Timeout: 14, RetryCount: verbs.MaxRetry, RNRRetry: verbs.RNRRetryForever,
	}
	for _, step := range []struct {
		to   verbs.QPState
		mask verbs.QPAttrMask
	}{
		{verbs.StateInit, verbs.AttrPort | verbs.AttrAccess},
		{verbs.StateRTR, verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
			verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer},
		{verbs.StateRTS, verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry |
			verbs.AttrMaxRdAtomic},
	} {
		q.State = step.to
		check(qp.Modify(&q, step.mask|verbs.AttrState))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
