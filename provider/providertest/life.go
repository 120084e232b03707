package providertest

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func lifeCases() []testCase {
	return []testCase{
		{"a domain that is in use", domainBusy},
		{"a CQ that is in use", cqBusy},
		{"a channel that is in use", channelBusy},
		{"a provider with open objects", providerBusy},
		{"closed PD", closedPD},
		{"closed CQ", closedCQ},
		{"closed channel", closedChannel},
		{"closed QP", closedQP},
		{"closed SRQ", closedSRQ},
		{"closed provider", closedProvider},
		{"a closed QP has no completions", closedQPForgets},
		{"an ID whose QP was closed takes another", replacedQP},
		{"an ID whose QP was closed connects an external one", replacedByExternal},
		{"a datagram ID whose QP was closed takes another", replacedDatagramQP},
	}
}

type closer interface{ Close() error }

// closeOrder checks that an object can not be closed while another object uses it.
func (r *rig) closeOrder(lower, upper closer) {
	r.t.Helper()
	r.ErrorIs(lower.Close(), verbs.ErrBusy)
	r.ErrorIs(lower.Close(), verbs.ErrBusy)
	r.NoError(upper.Close())
	r.NoError(upper.Close(), "a second Close does nothing")
}

func domainBusy(r *rig) {
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	pd, err := r.dev.AllocPD()
	r.NoError(err)

	mr, err := pd.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	r.NoError(err)
	r.closeOrder(pd, mr)

	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq})
	r.NoError(err)
	r.closeOrder(pd, qp)

	if r.dev.Caps().SRQ {
		srq, err := pd.CreateSRQ(&verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, CQ: cq})
		r.NoError(err)
		r.closeOrder(pd, srq)
	}
	if r.dev.Caps().UD {
		ah, err := pd.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(r.opts.Addr), Port: r.port, SourceIndex: r.gid})
		r.NoError(err)
		r.closeOrder(pd, ah)
	}
	r.NoError(pd.Close())
	r.NoError(pd.Close())
}

func cqBusy(r *rig) {
	attr := verbs.CQAttr{Depth: 8, Progress: r.progress}
	sends, err := r.dev.CreateCQ(&attr)
	r.NoError(err)
	recvs, err := r.dev.CreateCQ(&attr)
	r.NoError(err)
	qp, err := r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: sends, RecvCQ: recvs})
	r.NoError(err)
	r.ErrorIs(recvs.Close(), verbs.ErrBusy)
	r.closeOrder(sends, qp)
	r.NoError(sends.Close())
	r.NoError(recvs.Close())
}

func channelBusy(r *rig) {
	channel, err := r.dev.CreateCompChannel(&verbs.CompChannelAttr{Progress: r.progress})
	r.NoError(err)
	cq, err := r.dev.CreateCQ(&verbs.CQAttr{Depth: 8, Channel: channel, Progress: r.progress})
	r.NoError(err)
	r.closeOrder(channel, cq)
	r.NoError(channel.Close())
	r.NoError(channel.Close())
}

func providerBusy(r *rig) {
	r.ErrorIs(r.provider.Close(), verbs.ErrBusy)
	_, err := r.provider.Devices()
	r.NoError(err, "a refused Close changes nothing")
	r.newCQ(verbs.CQAttr{Depth: 8})
}

// requireClosed checks that each error matches verbs.ErrClosed.
func (r *rig) requireClosed(errs ...error) {
	r.t.Helper()
	for i, err := range errs {
		r.ErrorIs(err, verbs.ErrClosed, "call %d", i)
		var op *verbs.OpError
		r.ErrorAs(err, &op, "call %d", i)
	}
}

func closedPD(r *rig) {
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	pd, err := r.dev.AllocPD()
	r.NoError(err)
	r.NoError(pd.Close())
	_, alloc := pd.Alloc(&verbs.AllocAttr{Size: 4096, Access: verbs.AccessLocalWrite})
	_, register := pd.Register(make([]byte, 64), verbs.AccessLocalWrite)
	_, qp := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq})
	r.requireClosed(alloc, register, qp)
	if r.dev.Caps().SRQ {
		_, err := pd.CreateSRQ(&verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, CQ: cq})
		r.requireClosed(err)
	}
	if r.dev.Caps().UD {
		_, err := pd.CreateAH(&verbs.AHAttr{DestGID: verbs.GIDFromAddr(r.opts.Addr), Port: r.port, SourceIndex: r.gid})
		r.requireClosed(err)
	}
}

func closedCQ(r *rig) {
	cq, err := r.dev.CreateCQ(&verbs.CQAttr{Depth: 8, Progress: r.progress})
	r.NoError(err)
	r.NoError(cq.Close())
	r.NoError(cq.Close())
	var wcs [1]verbs.WC
	n, poll := cq.Poll(wcs[:])
	r.Zero(n)
	r.requireClosed(poll, cq.Arm(false))
	_, err = r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq})
	r.requireClosed(err)
	if r.dev.Caps().ResizeCQ {
		r.requireClosed(cq.Resize(16))
	}
}

func closedChannel(r *rig) {
	channel, err := r.dev.CreateCompChannel(&verbs.CompChannelAttr{Progress: r.progress})
	r.NoError(err)
	r.NoError(channel.Close())
	_, ok, next := channel.Next()
	r.False(ok)
	_, create := r.dev.CreateCQ(&verbs.CQAttr{Depth: 8, Channel: channel, Progress: r.progress})
	_, _, sleep := channel.Sleep(0)
	r.requireClosed(next, create, channel.Join(0), sleep)
}

func closedQP(r *rig) {
	p := r.pair(nil)
	qp := p.a.qp
	r.NoError(p.a.closeQP())
	r.NoError(qp.Close())
	_, postSend := qp.PostSend([]verbs.SendWR{send(1)})
	_, postRecv := qp.PostRecv([]verbs.RecvWR{{ID: 1}})
	_, query := qp.Query()
	modify := qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState)
	r.requireClosed(postSend, postRecv, query, modify, qp.SetRecvMode(verbs.RecvPaused))
}

func closedSRQ(r *rig) {
	r.requires(lacksSRQ)
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	srq, err := r.pd.CreateSRQ(&verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, CQ: cq})
	r.NoError(err)
	r.NoError(srq.Close())
	r.NoError(srq.Close())
	_, post := srq.PostRecv([]verbs.RecvWR{{ID: 1}})
	_, create := r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	r.requireClosed(post, srq.Arm(1), create)
}

func closedProvider(r *rig) {
	r.NoError(r.cms.Close())
	r.NoError(r.pd.Close())
	r.NoError(r.provider.Close())
	r.NoError(r.provider.Close())
	_, devices := r.provider.Devices()
	_, pd := r.dev.AllocPD()
	_, cq := r.dev.CreateCQ(&verbs.CQAttr{Depth: 8, Progress: r.progress})
	_, channel := r.dev.CreateCompChannel(nil)
	_, events := cm.OpenChannel(r.provider)
	_, async := r.dev.NextAsync(&verbs.AsyncEvent{})
	r.requireClosed(devices, pd, cq, channel, events, async)
}

// closedQPForgets closes a QP with outstanding requests. They must never complete
// (ibv_destroy_qp(3)).
func closedQPForgets(r *rig) {
	p := r.pair(nil)
	for i := range 4 {
		p.a.recv(uint64(i), p.a.sge(0, 64))
		// End b has no receive buffer, so this request does not complete.
		p.a.post(send(uint64(i), p.a.sge(0, 64)))
	}
	r.NoError(p.a.closeQP())
	for range 100 {
		r.turn()
	}
	r.Empty(p.a.sends.wcs)
	r.Empty(p.a.recvs.wcs)
}
