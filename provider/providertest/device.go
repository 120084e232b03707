package providertest

import (
	"math"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func deviceCases() []testCase {
	return []testCase{
		{"identity", identity},
		{"limits are usable", limitsUsable},
		{"ports", ports},
		{"devices are the same each time", sameDevices},
		{"no event on a fresh device", noAsyncEvent},
		{"CQ parameters", cqParameters},
		{"QP parameters", qpParameters},
		{"SRQ parameters", srqParameters},
		{"AH parameters", ahParameters},
		{"memory parameters", memoryParameters},
		{"objects of another device", foreignObjects},
		{"objects of another domain", foreignDomain},
	}
}

func identity(r *rig) {
	r.NotEmpty(r.provider.Name())
	r.NotEmpty(r.dev.Name())
	r.Equal(r.dev.Attr(), r.dev.Attr())
	r.Equal(r.dev.Caps(), r.dev.Caps())
	r.Equal(r.dev, r.pd.Device())
}

func limitsUsable(r *rig) {
	a := r.attr
	for name, limit := range map[string]int{
		"ports": a.NumPorts, "vectors": a.NumCompVectors, "QP": a.MaxQP, "WR": a.MaxQPWR, "SGE": a.MaxSGE,
		"CQ": a.MaxCQ, "CQE": a.MaxCQE, "MR": a.MaxMR, "PD": a.MaxPD,
	} {
		r.Positive(limit, name)
	}
	r.Positive(a.MaxMRSize)
	r.GreaterOrEqual(a.MaxInline, 0)
	r.LessOrEqual(a.NumPorts, math.MaxUint8)
	r.LessOrEqual(a.LocalCAAckDelay, uint8(31))
	if caps := r.dev.Caps(); caps.SRQ {
		r.Positive(a.MaxSRQ)
		r.Positive(a.MaxSRQWR)
		r.Positive(a.MaxSRQSGE)
	}
}

func ports(r *rig) {
	for num := 1; num <= r.attr.NumPorts; num++ {
		port, err := r.dev.Port(uint8(num))
		r.NoError(err)
		r.False(strings.Contains(port.State.String(), "port state"), "a state that is known")
		r.NotZero(port.MaxMTU.Bytes())
		r.NotZero(port.ActiveMTU.Bytes())
		r.LessOrEqual(port.ActiveMTU, port.MaxMTU)
		r.GreaterOrEqual(port.MaxMsgSize, uint32(1<<20))
		r.NotEmpty(port.GIDs)

		before := port.GIDs[0]
		// Changing the slice must not change the device's table.
		port.GIDs[0] = verbs.GID{0xff}
		again, err := r.dev.Port(uint8(num))
		r.NoError(err)
		r.Equal(before, again.GIDs[0])
	}
	ours, err := r.dev.Port(r.port)
	r.NoError(err)
	r.Equal(verbs.PortActive, ours.State, "the port of %v", r.opts.Addr)
	for _, num := range []int{0, r.attr.NumPorts + 1} {
		_, err := r.dev.Port(uint8(num))
		r.Error(err, "port %d", num)
	}
}

func sameDevices(r *rig) {
	first, err := r.provider.Devices()
	r.NoError(err)
	second, err := r.provider.Devices()
	r.NoError(err)
	r.Equal(first, second)
	first[0] = nil // The caller owns the slice and may change it.
	third, err := r.provider.Devices()
	r.NoError(err)
	r.Equal(second, third)
}

func noAsyncEvent(r *rig) {
	r.GreaterOrEqual(r.dev.AsyncFD(), 0)
	var ev verbs.AsyncEvent
	ok, err := r.dev.NextAsync(&ev)
	r.NoError(err)
	r.False(ok)
}

// requireParamError checks that err is a *verbs.OpError around a *verbs.ParamError.
func (r *rig) requireParamError(err error, what string) {
	r.t.Helper()
	var param *verbs.ParamError
	r.ErrorAs(err, &param, what)
	r.NotEmpty(param.Field, what)
	var op *verbs.OpError
	r.ErrorAs(err, &op, what)
}

func cqParameters(r *rig) {
	for what, attr := range map[string]verbs.CQAttr{
		"no depth":         {Depth: 0},
		"negative depth":   {Depth: -1},
		"too deep":         {Depth: r.attr.MaxCQE + 1},
		"negative vector":  {Depth: 1, Vector: -1},
		"vector too large": {Depth: 1, Vector: r.attr.NumCompVectors},
		"unknown progress": {Depth: 1, Progress: 99},
	} {
		_, err := r.dev.CreateCQ(&attr)
		r.requireParamError(err, what)
	}
	_, err := r.dev.CreateCompChannel(&verbs.CompChannelAttr{Vector: r.attr.NumCompVectors})
	r.requireParamError(err, "vector of a channel")
	r.requireParamError(r.newCQ(verbs.CQAttr{Depth: 1}).Arm(false), "a CQ without a channel")
	if r.attr.NumCompVectors > 1 {
		channel, err := r.dev.CreateCompChannel(&verbs.CompChannelAttr{Vector: 1, Progress: r.progress})
		r.NoError(err)
		_, err = r.dev.CreateCQ(&verbs.CQAttr{Depth: 1, Channel: channel, Progress: r.progress})
		r.requireParamError(err, "a channel of another vector")
		r.NoError(channel.Close())
	}
}

func qpParameters(r *rig) {
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	for what, caps := range map[string]verbs.QPCaps{
		"send queue":          {MaxSendWR: r.attr.MaxQPWR + 1},
		"receive queue":       {MaxRecvWR: r.attr.MaxQPWR + 1},
		"send SGEs":           {MaxSendSGE: r.attr.MaxSGE + 1},
		"receive SGEs":        {MaxRecvSGE: r.attr.MaxSGE + 1},
		"inline":              {MaxInline: r.attr.MaxInline + 1},
		"negative send queue": {MaxSendWR: -1},
		"negative inline":     {MaxInline: -1},
	} {
		_, err := r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, Caps: caps})
		r.requireParamError(err, what)
	}
	_, err := r.pd.CreateQP(&verbs.QPInitAttr{Type: 77, SendCQ: cq, RecvCQ: cq})
	r.Error(err, "unknown type")
	_, err = r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq})
	r.Error(err, "no receive CQ")
	_, err = r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, RecvCQ: cq})
	r.Error(err, "no send CQ")
}

func srqParameters(r *rig) {
	r.requires(lacksSRQ)
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	for what, attr := range map[string]verbs.SRQAttr{
		"too long":      {MaxWR: r.attr.MaxSRQWR + 1, MaxSGE: 1},
		"too many SGEs": {MaxWR: 1, MaxSGE: r.attr.MaxSRQSGE + 1},
		"negative":      {MaxWR: -1, MaxSGE: 1},
	} {
		attr.CQ = cq
		_, err := r.pd.CreateSRQ(&attr)
		r.requireParamError(err, what)
	}
}

func ahParameters(r *rig) {
	r.requires(lacksUD)
	good := verbs.AHAttr{DestGID: verbs.GIDFromAddr(r.opts.Addr), Port: r.port, SourceIndex: r.gid}
	ah, err := r.pd.CreateAH(&good)
	r.NoError(err)
	r.Equal(good, ah.Attr())
	r.NoError(ah.Close())
	for what, change := range map[string]func(*verbs.AHAttr){
		"no port":          func(a *verbs.AHAttr) { a.Port = 0 },
		"port too large":   func(a *verbs.AHAttr) { a.Port = uint8(r.attr.NumPorts + 1) },
		"negative source":  func(a *verbs.AHAttr) { a.SourceIndex = -1 },
		"source too large": func(a *verbs.AHAttr) { a.SourceIndex = 1 << 20 },
	} {
		attr := good
		change(&attr)
		_, err := r.pd.CreateAH(&attr)
		r.requireParamError(err, what)
	}
}

func memoryParameters(r *rig) {
	for what, size := range map[string]int{"nothing": 0, "negative": -1} {
		_, err := r.pd.Alloc(&verbs.AllocAttr{Size: size, Access: verbs.AccessLocalWrite})
		r.requireParamError(err, what)
	}
	if r.attr.MaxMRSize < math.MaxInt {
		_, err := r.pd.Alloc(&verbs.AllocAttr{Size: int(r.attr.MaxMRSize) + 1, Access: verbs.AccessLocalWrite})
		r.requireParamError(err, "too large")
	}
	_, err := r.pd.Register(nil, verbs.AccessLocalWrite)
	r.requireParamError(err, "no memory")
}

// Objects that do not belong to the provider. It must refuse them with ErrForeign.
type (
	wrappedCQ      struct{ verbs.CQ }
	wrappedSRQ     struct{ verbs.SRQ }
	wrappedChannel struct{ verbs.CompChannel }
)

func foreignObjects(r *rig) {
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	for what, attr := range map[string]verbs.QPInitAttr{
		"send CQ":    {Type: verbs.QPTypeRC, SendCQ: wrappedCQ{cq}, RecvCQ: cq},
		"receive CQ": {Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: wrappedCQ{cq}},
		"SRQ":        {Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, SRQ: wrappedSRQ{}},
	} {
		_, err := r.pd.CreateQP(&attr)
		r.ErrorIs(err, verbs.ErrForeign, what)
	}
	_, err := r.dev.CreateCQ(&verbs.CQAttr{Depth: 8, Channel: wrappedChannel{}, Progress: r.progress})
	r.ErrorIs(err, verbs.ErrForeign)
}

// foreignDomain checks that a QP can not use an SRQ of another protection domain.
func foreignDomain(r *rig) {
	r.requires(lacksSRQ)
	cq := r.newCQ(verbs.CQAttr{Depth: 8})
	srq := r.newSRQ(r.newPD(), &verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, CQ: cq})
	_, err := r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq, SRQ: srq})
	r.ErrorIs(err, verbs.ErrForeign)
}
