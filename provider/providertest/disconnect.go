package providertest

import (
	"bytes"

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
		{"private data", disconnectData},
		{"private data of both sides", disconnectDataCrossing},
		{"private data before Established was fetched", disconnectDataUnfetched},
	}
}

// disconnectTwice calls Disconnect several times on each side. Only the first call may
// have an effect.
func disconnectTwice(r *rig) {
	p := r.pair(nil)
	for range 2 {
		r.NoError(p.a.id.Disconnect(nil))
	}
	r.await(p.b.id, cm.Disconnected)
	for range 2 {
		r.NoError(p.b.id.Disconnect(nil))
	}
	r.await(p.a.id, cm.Disconnected)
	r.NoError(p.a.id.Disconnect(nil))
	r.NoError(p.b.id.Disconnect(nil))
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
	r.NoError(p.b.id.Disconnect(nil))
	p.b.flushed()

	r.NoError(p.b.id.Migrate(r.cms))
	r.await(p.b.id, cm.Established)
	r.await(p.a.id, cm.Disconnected)
	r.NoError(p.a.id.Disconnect(nil))
	r.await(p.b.id, cm.Disconnected)
	r.noEventsLeft()
}

// disconnectUnanswered disconnects the active side before the answer. Disconnect must
// flush the queue pair, but the ID stays in Connecting.
func disconnectUnanswered(r *rig) {
	p := r.request(nil)
	p.a.postFlushed()
	r.NoError(p.a.id.Disconnect(nil))
	p.a.flushed()
	r.Equal(cm.StateConnecting, p.a.id.State())
	r.NoError(p.b.id.Accept(nil))
	r.await(p.a.id, cm.ConnectError)
	r.NoError(p.a.closeQP())
	r.NoError(p.a.id.Close())
	r.await(p.b.id, cm.Rejected)
	r.NoError(p.b.id.Disconnect(nil))
	r.noEventsLeft()
}

func disconnectRefused(r *rig) {
	p := r.request(nil)
	r.NoError(p.b.id.Reject(nil))
	r.await(p.a.id, cm.Rejected)
	for range 2 {
		r.NoError(p.a.id.Disconnect(nil))
	}
	r.Equal(cm.StateFailed, p.a.id.State())
	r.noEventsLeft()
}

// disconnectData disconnects with the longest private data. An answer has none. A device
// without the capability says so, and disconnects without private data.
func disconnectData(r *rig) {
	p := r.pair(nil)
	data := bytes.Repeat([]byte{0xa5}, cm.MaxPrivateData(cm.TCP, cm.MessageDisconnect))
	if !r.dev.Caps().DisconnectData {
		r.ErrorIs(p.a.id.Disconnect(data), verbs.ErrNotSupported)
		r.NoError(p.a.id.Disconnect(nil))
		r.Empty(trimZeros(r.await(p.b.id, cm.Disconnected).param.PrivateData))
		return
	}
	var param *verbs.ParamError
	r.ErrorAs(p.a.id.Disconnect(append(data, 1)), &param)
	r.NoError(p.a.id.Disconnect(data))
	r.Equal(data, r.await(p.b.id, cm.Disconnected).param.PrivateData)
	r.NoError(p.b.id.Disconnect([]byte("not sent")))
	r.Empty(trimZeros(r.await(p.a.id, cm.Disconnected).param.PrivateData))
	r.noEventsLeft()
}

// disconnectDataCrossing lets both sides disconnect before they have fetched the request of
// the other one, which has private data.
func disconnectDataCrossing(r *rig) {
	r.requires(lacksDisconnectData)
	p := r.pair(nil)
	r.NoError(p.a.id.Disconnect([]byte("a ends")))
	r.NoError(p.b.id.Disconnect([]byte("b ends")))
	r.Equal("a ends", string(trimZeros(r.await(p.b.id, cm.Disconnected).param.PrivateData)))
	r.Equal("b ends", string(trimZeros(r.await(p.a.id, cm.Disconnected).param.PrivateData)))
	r.noEventsLeft()
}

// disconnectDataUnfetched is disconnectUnfetched with private data, which arrives although
// the first call may be too early to send it.
func disconnectDataUnfetched(r *rig) {
	r.requires(lacksDisconnectData)
	p := r.request(nil)
	r.separate(p.b.id)
	r.NoError(p.b.id.Accept(nil))
	r.await(p.a.id, cm.Established)
	r.NoError(p.b.id.Disconnect([]byte("early")))
	r.NoError(p.b.id.Migrate(r.cms))
	r.await(p.b.id, cm.Established)
	r.Equal("early", string(trimZeros(r.await(p.a.id, cm.Disconnected).param.PrivateData)))
	r.NoError(p.a.id.Disconnect(nil))
	r.await(p.b.id, cm.Disconnected)
	r.noEventsLeft()
}

// trimZeros removes the zeros that connection managers add to private data.
func trimZeros(data []byte) []byte { return bytes.TrimRight(data, "\x00") }

// noEventsLeft checks that the case has taken all events.
func (r *rig) noEventsLeft() {
	r.t.Helper()
	for range 3 {
		r.turn()
	}
	r.Empty(r.events)
}
