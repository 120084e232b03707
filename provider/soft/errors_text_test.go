//go:build linux

package soft_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestErrorTexts has the whole text of the errors of Open, and of calls of a device, as their
// caller gets them.
func TestErrorTexts(t *testing.T) {
	open := func(c soft.Config) error { _, err := soft.Open(&c); return err }
	p, err := soft.Open(nil)
	require.NoError(t, err)
	other, err := soft.Open(nil)
	require.NoError(t, err)
	devices, err := p.Devices()
	require.NoError(t, err)
	dev := devices[0]
	pd, err := dev.AllocPD()
	require.NoError(t, err)
	cq, err := dev.CreateCQ(&verbs.CQAttr{Depth: 16})
	require.NoError(t, err)
	channel, err := dev.CreateCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	require.NoError(t, err)
	createCQ := func(a verbs.CQAttr) error { _, err := dev.CreateCQ(&a); return err }
	createChannel := func(vector int) error {
		_, err := dev.CreateCompChannel(&verbs.CompChannelAttr{Vector: vector, Progress: verbs.ProgressManual})
		return err
	}
	createQP := func(a verbs.QPInitAttr) error { _, err := pd.CreateQP(&a); return err }
	alloc := func(size int) error { _, err := pd.Alloc(&verbs.AllocAttr{Size: size}); return err }
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, Caps: verbs.QPCaps{MaxSendWR: 1, MaxRecvWR: 1}})
	require.NoError(t, err)
	send := func() error { _, err := qp.PostSend([]verbs.SendWR{{}}); return err }
	receive := func() error { _, err := qp.PostRecv([]verbs.RecvWR{{}}); return err }
	list := func() error { _, err := other.Devices(); return err }
	require.NoError(t, other.Close())
	port := func(n uint8) error { _, err := dev.Port(n); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{open(soft.Config{Path: 9}), "rdma: open soft device: Path 9: the limit is 2"},
		{open(soft.Config{RingBytes: 5000}), "rdma: open soft device: RingBytes 5000: not a power of two from 4096 to 67108864"},
		{open(soft.Config{RingSlots: 4}), "rdma: open soft device: RingSlots 4: not a power of two from 8 to 32768"},
		{open(soft.Config{MaxHalfOpen: -1}), "rdma: open soft device: MaxHalfOpen -1: the minimum is 1"},
		{open(soft.Config{MaxHalfOpenPerAddress: 513}), "rdma: open soft device: MaxHalfOpenPerAddress 513: the limit is 512"},
		{open(soft.Config{MaxConnsPerUser: 1<<20 + 1}), "rdma: open soft device: MaxConnsPerUser 1048577: the limit is 1048576"},
		{list(), "rdma: list soft devices: closed"},
		{port(2), "rdma: query port: port 2: the device has one port, with number 1"},
		{alloc(0), "rdma: alloc MR: size 0: the minimum is 1"},
		{createCQ(verbs.CQAttr{}), "rdma: create CQ: CQ depth 0: the minimum is 1"},
		{createCQ(verbs.CQAttr{Depth: 1, Vector: 5000}), fmt.Sprintf("rdma: create CQ: vector 5000: the limit is %d", dev.Attr().NumCompVectors-1)},
		{createCQ(verbs.CQAttr{Depth: 1, Channel: channel}), "rdma: create CQ: vector 0: a CQ must have the vector and progress of its channel"},
		{createChannel(0), "rdma: create completion channel: still in use: another completion channel has the completion vector"},
		{createChannel(-1), "rdma: create completion channel: vector -1: the minimum is 0"},
		{createQP(verbs.QPInitAttr{Type: 9}), "rdma: create QP: QP type 9: neither RC nor UD"},
		{createQP(verbs.QPInitAttr{Type: verbs.QPTypeRC}), "rdma: create QP: object of another device or domain: the CQ is missing or of another provider"},
		{createQP(verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, Caps: verbs.QPCaps{MaxSendWR: 1 << 16}}), "rdma: create QP: send WRs 65536: the limit is 32768"},
		{send(), "rdma: post send: wrong state: only a queue pair in RTS, SQD or ERR has sends"},
		{receive(), "rdma: post receive: wrong state: a queue pair in RESET has no receives"},
		{cq.Close(), "rdma: close CQ: still in use: the CQ has queue pairs, or events that are not acknowledged"},
		{pd.Close(), "rdma: close PD: still in use: MRs, QPs, SRQs or AHs of the PD are open"},
		{p.Close(), "rdma: close soft device: still in use: open objects of the device: 1 PD, 1 CQ, 1 completion channel"},
	} {
		assert.EqualError(t, c.err, c.want)
	}
	for _, close := range []func() error{qp.Close, cq.Close, channel.Close, pd.Close, p.Close} {
		require.NoError(t, close())
	}
}
