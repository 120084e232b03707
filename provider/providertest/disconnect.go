package providertest

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// disconnectCases returns the cases about Disconnect. The results are the same as with
// librdmacm, except for a Disconnect before the RTU: it must not be lost.
func disconnectCases() []testCase {
	return []testCase{
		{"twice", disconnectTwice},
		{"before Established was fetched", disconnectUnfetched},
		{"before the peer's answer", disconnectUnanswered},
		{"after a refusal", disconnectRefused},
	}
}

// disconnectTwice calls Disconnect several times on each side. Only the first call may
// have an effect.
func disconnectTwice(r *rig) {
	p := r.pair(nil)
	for range 2 {
		r.NoError(p.a.id.Disconnect())
	}
	r.await(p.b.id, cm.Disconnected)
	for range 2 {
		r.NoError(p.b.id.Disconnect())
	}
	r.await(p.a.id, cm.Disconnected)
	r.NoError(p.a.id.Disconnect())
	r.NoError(p.b.id.Disconnect())
	r.Equal(verbs.StateError, p.a.qp.State())
	r.Equal(verbs.StateError, p.b.qp.State())
	r.noEventsLeft()
}

// disconnectUnfetched disconnects the passive side before it has fetched Established. The
// RTU may have arrived or not, but the result must be the same.
func disconnectUnfetched(r *rig) {
	p := r.request(nil)
	r.separate(p.b.id)
	r.NoError(p.b.id.Accept(nil))
	r.await(p.a.id, cm.Established)
	p.b.postFlushed()
	r.NoError(p.b.id.Disconnect())
	p.b.flushed()

	r.NoError(p.b.id.Migrate(r.cms))
	r.await(p.b.id, cm.Established)
	r.await(p.a.id, cm.Disconnected)
	r.NoError(p.a.id.Disconnect())
	r.await(p.b.id, cm.Disconnected)
	r.noEventsLeft()
}

// disconnectUnanswered disconnects the active side before the answer. Disconnect must
// flush the queue pair, but the ID stays in Connecting.
func disconnectUnanswered(r *rig) {
	p := r.request(nil)
	p.a.postFlushed()
	r.NoError(p.a.id.Disconnect())
	p.a.flushed()
	r.Equal(cm.StateConnecting, p.a.id.State())
	r.NoError(p.b.id.Accept(nil))
	r.await(p.a.id, cm.ConnectError)
	r.NoError(p.a.closeQP())
	r.NoError(p.a.id.Close())
	r.await(p.b.id, cm.Rejected)
	r.NoError(p.b.id.Disconnect())
	r.noEventsLeft()
}

func disconnectRefused(r *rig) {
	p := r.request(nil)
	r.NoError(p.b.id.Reject(nil))
	r.await(p.a.id, cm.Rejected)
	for range 2 {
		r.NoError(p.a.id.Disconnect())
	}
	r.Equal(cm.StateFailed, p.a.id.State())
	r.noEventsLeft()
}

// noEventsLeft checks that the case has taken all events.
func (r *rig) noEventsLeft() {
	r.t.Helper()
	for range 3 {
		r.turn()
	}
	r.Empty(r.events)
}
