package cm_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A name such as "C1" at the beginning of a test case refers to manual_test.go.
//
// The fake device serves at most 16 READs and atomics of the peer, and can have 8 of its
// own outstanding.

// withQP creates the queue pair of p.
func withQP(p *peer) *peer {
	p.createQP()
	return p
}

// usualRequest is the message of Connect(nil).
var usualRequest = cm.MessageParam{ResponderResources: 16, InitiatorDepth: 8, RetryCount: 7, RNRRetryCount: 7, QPNum: fakeQPNum}

// In zeroCounts every count is negative, which means zero.
var zeroCounts = &cm.ConnParam{ResponderResources: -1, InitiatorDepth: -2, RetryCount: math.MinInt, RNRRetryCount: -256}

func TestConnect(t *testing.T) {
	t.Run("C1: Connect starts a request or a lookup", func(t *testing.T) {
		for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
			p := withQP(routed(t, ps))
			require.NoError(t, p.id.Connect(nil))
			require.Equal(t, cm.StateConnecting, p.id.State())
		}
	})
	t.Run("C1: nil and zero mean the largest values", func(t *testing.T) {
		for _, param := range []*cm.ConnParam{nil, {}} {
			p := withQP(routed(t, cm.TCP))
			require.NoError(t, p.id.Connect(param))
			require.Equal(t, usualRequest, p.fake.param)
		}
	})
	t.Run("a negative count means zero", func(t *testing.T) {
		p := withQP(routed(t, cm.TCP))
		require.NoError(t, p.id.Connect(zeroCounts))
		require.Equal(t, cm.MessageParam{QPNum: fakeQPNum}, p.fake.param)
	})
	t.Run("C2: private data is passed through", func(t *testing.T) {
		p := withQP(routed(t, cm.TCP))
		require.NoError(t, p.id.Connect(&cm.ConnParam{PrivateData: []byte("hello")}))
		require.Equal(t, []byte("hello"), p.fake.param.PrivateData)
	})
	t.Run("C14: private data is limited, and the call may be repeated", func(t *testing.T) {
		for ps, limit := range map[cm.PortSpace]int{cm.TCP: 56, cm.UDP: 180} {
			p := withQP(routed(t, ps))
			p.fake.calls = nil
			requireParam(t, p.id.Connect(&cm.ConnParam{PrivateData: make([]byte, limit+1)}), "private data length", int64(limit)+1, int64(limit))
			require.Empty(t, p.fake.calls)
			require.NoError(t, p.id.Connect(&cm.ConnParam{PrivateData: make([]byte, limit)}))
			require.Len(t, p.fake.param.PrivateData, limit)
		}
	})
	t.Run("C15: a lookup takes private data only", func(t *testing.T) {
		p := routed(t, cm.UDP)
		require.NoError(t, p.id.Connect(&cm.ConnParam{
			ResponderResources: 99, InitiatorDepth: 99, FlowControl: true, RetryCount: 99, RNRRetryCount: 99,
			PrivateData: []byte("x"),
		}))
		require.Equal(t, cm.MessageParam{PrivateData: []byte("x")}, p.fake.param)
		p = routed(t, cm.UDP)
		require.NoError(t, p.id.Connect(nil), "a lookup needs no queue pair")
	})
}

func TestConnectNumbers(t *testing.T) {
	t.Run("C4 C6: depths are limited by the device", func(t *testing.T) {
		p := withQP(routed(t, cm.TCP))
		requireParam(t, p.id.Connect(&cm.ConnParam{ResponderResources: 17}), "responder resources", 17, 16)
		requireParam(t, p.id.Connect(&cm.ConnParam{InitiatorDepth: 9}), "initiator depth", 9, 8)
		require.NoError(t, p.id.Connect(&cm.ConnParam{ResponderResources: 16, InitiatorDepth: 8}))
		require.Equal(t, uint8(16), p.fake.param.ResponderResources)
		require.Equal(t, uint8(8), p.fake.param.InitiatorDepth)
		for _, tooMany := range []int{255, 256, 256 + 1, math.MaxInt} {
			p := withQP(routed(t, cm.TCP))
			requireParam(t, p.id.Connect(&cm.ConnParam{ResponderResources: tooMany}), "responder resources", int64(tooMany), 16)
			requireParam(t, p.id.Connect(&cm.ConnParam{InitiatorDepth: tooMany}), "initiator depth", int64(tooMany), 8)
		}
	})
	t.Run("C9 C10 C11: flow control and counts are passed on", func(t *testing.T) {
		p := withQP(routed(t, cm.TCP))
		require.NoError(t, p.id.Connect(&cm.ConnParam{FlowControl: true, RetryCount: 3, RNRRetryCount: 4}))
		want := usualRequest
		want.FlowControl, want.RetryCount, want.RNRRetryCount = true, 3, 4
		require.Equal(t, want, p.fake.param)
	})
	t.Run("C13: counts above 7 are errors", func(t *testing.T) {
		p := withQP(routed(t, cm.TCP))
		requireParam(t, p.id.Connect(&cm.ConnParam{RetryCount: 8}), "retry count", 8, 7)
		requireParam(t, p.id.Connect(&cm.ConnParam{RNRRetryCount: 255}), "RNR retry count", 255, 7)
		requireParam(t, p.id.Connect(&cm.ConnParam{RetryCount: 256}), "retry count", 256, 7)
	})
}

func TestConnectQueuePair(t *testing.T) {
	t.Run("C12: the queue pair of the ID is used", func(t *testing.T) {
		p := routed(t, cm.TCP)
		attr := qpAttr(cm.TCP)
		attr.SRQ = &fakeSRQ{}
		require.NoError(t, p.id.CreateQP(thePD, attr))
		require.NoError(t, p.id.Connect(&cm.ConnParam{QPNum: 1 << 31, QKey: 5}))
		want := usualRequest
		want.SRQ = true
		require.Equal(t, want, p.fake.param)
	})
	t.Run("C12: without a queue pair the number is required", func(t *testing.T) {
		p := routed(t, cm.TCP)
		requireParam(t, p.id.Connect(nil), "QP number", 0, 0)
		requireParam(t, p.id.Connect(&cm.ConnParam{}), "QP number", 0, 0)
		for _, number := range []uint32{1 << 24, 1<<32 - 1} {
			requireParam(t, p.id.Connect(&cm.ConnParam{QPNum: number}), "QP number", int64(number), 1<<24-1)
		}
		require.NoError(t, p.id.Connect(&cm.ConnParam{QPNum: 1<<24 - 1, SRQ: true}))
		want := usualRequest
		want.QPNum, want.SRQ = 1<<24-1, true
		require.Equal(t, want, p.fake.param)
	})
}

// sampleRequest has the parameters of a request, on the passive side.
var sampleRequest = cm.MessageParam{ResponderResources: 4, InitiatorDepth: 3, FlowControl: true, RetryCount: 5, RNRRetryCount: 6, QPNum: 99}

func TestAccept(t *testing.T) {
	t.Run("A1: Accept answers requests and lookups", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(nil))
		require.Equal(t, cm.StateAccepted, p.id.State())
		p = withQP(requested(t, cm.UDP, sampleRequest))
		require.NoError(t, p.id.Accept(nil))
		require.Equal(t, cm.StateEstablished, p.id.State())
	})
	t.Run("A2: Accept is not allowed on the listener", func(t *testing.T) {
		p := listening(t, cm.TCP)
		require.ErrorIs(t, p.id.Accept(nil), verbs.ErrState)
	})
	t.Run("A2: a second Accept is not allowed", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(nil))
		require.ErrorIs(t, p.id.Accept(nil), verbs.ErrState)
		require.ErrorIs(t, p.id.Reject(nil), verbs.ErrState)
	})
	t.Run("A4: the new ID is bound to a device", func(t *testing.T) {
		p := requested(t, cm.TCP, sampleRequest)
		require.NotNil(t, p.id.Device())
		require.ErrorIs(t, p.id.Bind(local), verbs.ErrState)
	})
	t.Run("A32: Accept fails if the peer has gone", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		p.fake.fail = verbs.ErrPeerGone
		require.ErrorIs(t, p.id.Accept(nil), verbs.ErrPeerGone)
		require.Equal(t, cm.StateFailed, p.id.State())
	})
}

func TestAcceptNil(t *testing.T) {
	t.Run("A8: nil means the counts of the request", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(nil))
		want := sampleRequest
		want.QPNum, want.FlowControl = fakeQPNum, false
		require.Equal(t, want, p.fake.param)
	})
	t.Run("A8: nil values are lowered to the limits of the device", func(t *testing.T) {
		high := cm.MessageParam{ResponderResources: 200, InitiatorDepth: 200, RetryCount: 7, RNRRetryCount: 7}
		p := withQP(requested(t, cm.TCP, high))
		require.NoError(t, p.id.Accept(nil))
		require.Equal(t, uint8(16), p.fake.param.ResponderResources)
		require.Equal(t, uint8(8), p.fake.param.InitiatorDepth)
	})
	t.Run("A8: a count of the peer above 7 becomes 7", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, cm.MessageParam{RNRRetryCount: 200}))
		require.NoError(t, p.id.Accept(nil))
		require.Equal(t, uint8(7), p.fake.param.RNRRetryCount)
	})
	t.Run("zero counts mean the same as nil", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(&cm.ConnParam{PrivateData: []byte("x")}))
		want := sampleRequest
		want.PrivateData, want.QPNum, want.FlowControl = []byte("x"), fakeQPNum, false
		require.Equal(t, want, p.fake.param)
	})
	t.Run("a negative count means zero", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(zeroCounts))
		require.Equal(t, cm.MessageParam{RetryCount: sampleRequest.RetryCount, QPNum: fakeQPNum}, p.fake.param)
	})
	t.Run("A8: zero in the request stays zero", func(t *testing.T) {
		for _, param := range []*cm.ConnParam{nil, {RNRRetryCount: -1}} {
			p := withQP(requested(t, cm.TCP, cm.MessageParam{}))
			require.NoError(t, p.id.Accept(param))
			require.Equal(t, cm.MessageParam{QPNum: fakeQPNum}, p.fake.param)
		}
	})
	t.Run("A9: nil needs a queue pair", func(t *testing.T) {
		for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
			p := requested(t, ps, sampleRequest)
			requireParam(t, p.id.Accept(nil), "QP number", 0, 0)
			require.NoError(t, p.id.Accept(&cm.ConnParam{QPNum: 7}))
		}
	})
}

func TestAcceptPrivateData(t *testing.T) {
	t.Run("A6 A7: the parameters of the event are valid until Ack", func(t *testing.T) {
		ev, p := listening(t, cm.TCP).request(sampleRequest, []byte("echo"))
		p.createQP()
		param := ev.Param.ConnParam()
		param.PrivateData = ev.Param.PrivateData
		require.NoError(t, p.id.Accept(param))
		require.NoError(t, ev.Ack())
		require.Equal(t, []byte("echo"), p.fake.param.PrivateData)
		require.Equal(t, uint32(fakeQPNum), p.fake.param.QPNum)
		require.Equal(t, uint8(4), p.fake.param.ResponderResources)
	})
	t.Run("A10 A11 A12: private data is optional and copied", func(t *testing.T) {
		data := []byte("hello")
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(&cm.ConnParam{PrivateData: data}))
		clear(data)
		require.Equal(t, []byte("hello"), p.fake.param.PrivateData)
	})
	t.Run("A31: private data is limited, and the request is not lost", func(t *testing.T) {
		for ps, limit := range map[cm.PortSpace]int{cm.TCP: 196, cm.UDP: 136} {
			p := withQP(requested(t, ps, sampleRequest))
			p.fake.calls = nil
			requireParam(t, p.id.Accept(&cm.ConnParam{PrivateData: make([]byte, limit+1)}), "private data length", int64(limit)+1, int64(limit))
			require.Empty(t, p.fake.calls)
			require.NoError(t, p.id.Accept(&cm.ConnParam{PrivateData: make([]byte, limit)}))
		}
	})
}

func TestAcceptDepths(t *testing.T) {
	t.Run("A15 A18: depths are limited by the device", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, cm.MessageParam{ResponderResources: 100, InitiatorDepth: 100}))
		requireParam(t, p.id.Accept(&cm.ConnParam{ResponderResources: 17}), "responder resources", 17, 16)
		requireParam(t, p.id.Accept(&cm.ConnParam{InitiatorDepth: 9}), "initiator depth", 9, 8)
		require.NoError(t, p.id.Accept(&cm.ConnParam{ResponderResources: 16, InitiatorDepth: 8}))
	})
	t.Run("A15 A18: zero is the request's value, lowered to the limits of the device", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, cm.MessageParam{ResponderResources: 255, InitiatorDepth: 255}))
		require.NoError(t, p.id.Accept(&cm.ConnParam{}))
		require.Equal(t, uint8(16), p.fake.param.ResponderResources)
		require.Equal(t, uint8(8), p.fake.param.InitiatorDepth)
	})
	t.Run("A16: larger responder resources than the peer's depth are allowed", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(&cm.ConnParam{ResponderResources: 16}))
	})
	t.Run("A19: a larger initiator depth than the peer serves is not allowed", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		requireParam(t, p.id.Accept(&cm.ConnParam{InitiatorDepth: 4}), "initiator depth", 4, 3)
		require.NoError(t, p.id.Accept(&cm.ConnParam{InitiatorDepth: 3}))
	})
}

func TestAcceptCounts(t *testing.T) {
	t.Run("A20 A24: flow control and the RNR count are passed on", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, cm.MessageParam{}))
		require.NoError(t, p.id.Accept(&cm.ConnParam{FlowControl: true, RNRRetryCount: 2}))
		require.True(t, p.fake.param.FlowControl)
		require.Equal(t, uint8(2), p.fake.param.RNRRetryCount)
	})
	t.Run("A22: the retry count is ignored", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(&cm.ConnParam{RetryCount: 200}))
		require.Equal(t, sampleRequest.RetryCount, p.fake.param.RetryCount)
	})
	t.Run("A30: an RNR count above 7 is an error", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		requireParam(t, p.id.Accept(&cm.ConnParam{RNRRetryCount: 8}), "RNR retry count", 8, 7)
	})
}

func TestAcceptQueuePair(t *testing.T) {
	t.Run("A26 A27: without a queue pair the number is required", func(t *testing.T) {
		p := requested(t, cm.UDP, sampleRequest)
		requireParam(t, p.id.Accept(&cm.ConnParam{QPNum: 1 << 24}), "QP number", 1<<24, 1<<24-1)
		require.NoError(t, p.id.Accept(&cm.ConnParam{QPNum: 7, QKey: 8}))
		require.Equal(t, cm.MessageParam{QPNum: 7, QKey: 8}, p.fake.param)
		p = requested(t, cm.UDP, sampleRequest)
		require.NoError(t, p.id.Accept(&cm.ConnParam{QPNum: 7}))
		require.Equal(t, uint32(cm.DefaultQKey), p.fake.param.QKey)
	})
	t.Run("A26: SRQ follows the queue pair of the ID", func(t *testing.T) {
		p := requested(t, cm.TCP, cm.MessageParam{})
		attr := qpAttr(cm.TCP)
		attr.SRQ = &fakeSRQ{}
		require.NoError(t, p.id.CreateQP(thePD, attr))
		require.NoError(t, p.id.Accept(&cm.ConnParam{RNRRetryCount: -1, QPNum: 7, QKey: 8}))
		require.Equal(t, cm.MessageParam{QPNum: fakeQPNum, SRQ: true}, p.fake.param)
	})
	t.Run("A26 A27: with a queue pair SRQ and QPNum are ignored", func(t *testing.T) {
		p := withQP(requested(t, cm.UDP, sampleRequest))
		require.NoError(t, p.id.Accept(&cm.ConnParam{QPNum: 7, QKey: 8, SRQ: true, RNRRetryCount: 99, InitiatorDepth: 99}))
		require.Equal(t, cm.MessageParam{QPNum: fakeQPNum, QKey: cm.DefaultQKey}, p.fake.param)
	})
}

func TestReject(t *testing.T) {
	t.Run("R1: Reject refuses a request", func(t *testing.T) {
		for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
			p := requested(t, ps, sampleRequest)
			require.NoError(t, p.id.Reject([]byte("no")))
			require.Equal(t, []byte("no"), p.fake.data)
			require.Equal(t, cm.StateFailed, p.id.State())
		}
	})
	t.Run("R1: Reject refuses a response", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateResponded)
		require.NoError(t, p.id.Reject(nil))
		require.ErrorIs(t, p.id.Establish(), verbs.ErrState)
	})
	t.Run("R2: private data is limited, and the call may be repeated", func(t *testing.T) {
		for ps, limit := range map[cm.PortSpace]int{cm.TCP: 148, cm.UDP: 136} {
			p := requested(t, ps, sampleRequest)
			data := bytes.Repeat([]byte{1}, limit+1)
			requireParam(t, p.id.Reject(data), "private data length", int64(limit)+1, int64(limit))
			require.Empty(t, p.fake.calls)
			require.NoError(t, p.id.Reject(data[1:]))
			require.Len(t, p.fake.data, limit)
		}
	})
	t.Run("the reason is RejectConsumer or RejectNoResources", func(t *testing.T) {
		for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
			p := requested(t, ps, sampleRequest)
			require.NoError(t, p.id.Reject([]byte("no")))
			require.Equal(t, cm.RejectConsumer, p.fake.reason)
			p = requested(t, ps, sampleRequest)
			require.NoError(t, p.id.RejectNoResources())
			require.Equal(t, cm.RejectNoResources, p.fake.reason)
			require.Empty(t, p.fake.data)
			require.ErrorIs(t, p.id.RejectNoResources(), verbs.ErrState)
		}
	})
	t.Run("R5: Reject is allowed once, and not on a listener", func(t *testing.T) {
		p := requested(t, cm.TCP, sampleRequest)
		require.NoError(t, p.id.Reject(nil))
		require.ErrorIs(t, p.id.Reject(nil), verbs.ErrState)
		require.ErrorIs(t, p.id.Accept(nil), verbs.ErrState)
		require.ErrorIs(t, listening(t, cm.TCP).id.Reject(nil), verbs.ErrState)
	})
}

// TestLengthsBeyondAByte checks that private data of 255 bytes and more is refused. In
// rdma_cm the length has only eight bits.
func TestLengthsBeyondAByte(t *testing.T) {
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		for _, n := range []int{255, 256, 257, 1 << 16} {
			data := make([]byte, n)
			active, passive := withQP(routed(t, ps)), withQP(requested(t, ps, sampleRequest))
			for m, err := range map[cm.Message]error{
				cm.MessageConnect: active.id.Connect(&cm.ConnParam{PrivateData: data}),
				cm.MessageAccept:  passive.id.Accept(&cm.ConnParam{PrivateData: data}),
				cm.MessageReject:  passive.id.Reject(data),
			} {
				requireParam(t, err, "private data length", int64(n), int64(cm.MaxPrivateData(ps, m)))
			}
			require.Equal(t, cm.StateRouteResolved, active.id.State())
			require.Equal(t, cm.StateRequested, passive.id.State())
		}
	}
}

// TestExternalQP checks a connection whose queue pair was not created on the ID.
func TestExternalQP(t *testing.T) {
	p := routed(t, cm.TCP)
	require.NoError(t, p.id.Connect(&cm.ConnParam{QPNum: 7}))
	p.transportChannel.push(cm.TransportEvent{Type: cm.ConnectResponse, ID: p.fake, Param: sampleRequest, PrivateData: []byte("hi")})
	ev := p.next()
	require.Equal(t, uint32(99), ev.Param.QPNum)
	require.Equal(t, []byte("hi"), ev.Param.PrivateData)
	require.NoError(t, ev.Ack())
	require.NoError(t, p.id.Establish())
	require.Equal(t, cm.StateEstablished, p.id.State())
	require.ErrorIs(t, p.id.Establish(), verbs.ErrState)
	require.NoError(t, p.id.Disconnect(nil))
	p.deliver(cm.Disconnected)
}

func TestNotify(t *testing.T) {
	t.Run("the event establishes the connection", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		require.NoError(t, p.id.Notify(verbs.AsyncCommEst))
		require.Equal(t, []string{"notify"}, p.fake.calls)
		require.Equal(t, int(verbs.AsyncCommEst), p.fake.value)
		require.Equal(t, cm.StateAccepted, p.id.State())
		p.deliver(cm.Established)
		require.ErrorIs(t, p.id.Notify(verbs.AsyncCommEst), verbs.ErrState)
	})
	t.Run("allowed with and without a queue pair", func(t *testing.T) {
		p := withQP(requested(t, cm.TCP, sampleRequest))
		require.NoError(t, p.id.Accept(nil))
		require.NoError(t, p.id.Notify(verbs.AsyncCommEst))
	})
	t.Run("the confirmation has arrived before", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		p.fake.fail = verbs.ErrState
		require.ErrorIs(t, p.id.Notify(verbs.AsyncCommEst), verbs.ErrState)
		require.Equal(t, cm.StateAccepted, p.id.State())
		p.deliver(cm.Established)
	})
	t.Run("other events are refused", func(t *testing.T) {
		p := reach(t, cm.TCP, cm.StateAccepted)
		for event := range verbs.AsyncEventType(255) {
			if event != verbs.AsyncCommEst {
				requireParam(t, p.id.Notify(event), "asynchronous event", int64(event), 0)
			}
		}
		require.Empty(t, p.fake.calls)
	})
}
