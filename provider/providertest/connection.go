package providertest

import (
	"context"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func connectionCases() []testCase {
	return []testCase{
		{"events stay valid after they are acknowledged", eventsStayValid},
		{"a second acknowledgement is an error", ackTwice},
		{"programs without a loop wait for events", waitForEvents},
	}
}

// requestEvents makes two different connection requests to one listener and returns their
// events. The events are not acknowledged.
func (r *rig) requestEvents() (listener *cm.ID, first, second cm.Event) {
	r.t.Helper()
	listener = r.listen(cm.TCP)
	ctx, cancel := context.WithTimeout(r.t.Context(), waitLimit)
	defer cancel()
	ask := func(param *cm.ConnParam) cm.Event {
		a, _ := r.plans()
		e := r.newEnd(&a)
		e.id = r.resolve(cm.TCP, listener.LocalAddr())
		e.createQP(&a)
		r.NoError(e.id.Connect(param))
		ev, err := r.cms.Wait(ctx)
		r.NoError(err)
		r.Equal(cm.ConnectRequest, ev.Type)
		r.True(listener == ev.Listener, "the event names another listener")
		r.closing("passive id", ev.ID.Close)
		return ev
	}
	first = ask(&cm.ConnParam{PrivateData: []byte("first"), InitiatorDepth: 1})
	second = ask(&cm.ConnParam{PrivateData: []byte("other"), InitiatorDepth: -1})
	return listener, first, second
}

func eventsStayValid(r *rig) {
	listener, first, second := r.requestEvents()
	r.NoError(first.Ack())
	r.NoError(second.Ack())
	r.NoError(listener.Close())
	for want, ev := range map[string]cm.Event{"first": first, "other": second} {
		r.Equal(want, string(ev.Param.PrivateData[:5]))
		r.Equal(listener, ev.Listener)
		r.Equal(cm.StateRequested, ev.ID.State())
	}
	r.Equal(uint8(1), first.Param.ResponderResources)
	r.Zero(second.Param.ResponderResources)
	r.NotEqual(first.Param.QPNum, second.Param.QPNum)
}

// ackTwice acknowledges one of two events twice. The second Ack must fail, and must not
// acknowledge the other event.
func ackTwice(r *rig) {
	listener, first, second := r.requestEvents()
	r.NoError(first.Ack())
	r.ErrorIs(first.Ack(), verbs.ErrState)
	r.ErrorIs(listener.Close(), verbs.ErrBusy)
	r.NoError(second.Ack())
	r.NoError(listener.Close())
}

// waitForEvents fetches the events of two event channels with EventChannel.Wait and
// EventChannel.Expect.
func waitForEvents(r *rig) {
	p := r.request(nil)
	other := r.separate(p.b.id)
	ctx, cancel := context.WithTimeout(r.t.Context(), waitLimit)
	defer cancel()

	r.NoError(p.b.id.Accept(nil))
	_, err := r.cms.Expect(ctx, cm.Established)
	r.NoError(err)
	_, err = other.Expect(ctx, cm.Established)
	r.NoError(err)
	canceled, cancelNow := context.WithCancel(ctx)
	go cancelNow()
	_, err = other.Wait(canceled)
	r.ErrorIs(err, context.Canceled)

	r.NoError(p.a.id.Disconnect(nil))
	_, err = other.Expect(ctx, cm.Disconnected)
	r.NoError(err)
	r.NoError(p.b.id.Disconnect(nil))
	ev, err := r.cms.Wait(ctx)
	r.NoError(err)
	r.Equal(cm.Disconnected, ev.Type)
	r.NoError(ev.Ack())
}
