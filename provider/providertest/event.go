package providertest

import (
	"fmt"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
)

// An event has the fields of a cm.Event that the cases use. The cm.Event is acknowledged
// before they use it.
type event struct {
	typ    cm.EventType
	id     *cm.ID
	owner  *cm.ID // the listener for a request, else id
	status int
	err    error
	param  cm.MessageParam
	ud     cm.UDParam
}

// nextEvent fetches one event and returns whether there was one.
func (r *rig) nextEvent() bool {
	r.t.Helper()
	ev, ok, err := r.cms.Next()
	r.NoError(err)
	if !ok {
		return false
	}
	kept := event{typ: ev.Type, id: ev.ID, owner: ev.ID, status: ev.Status, err: ev.Err, param: ev.Param, ud: ev.UD}
	if ev.Type == cm.ConnectRequest {
		kept.owner = ev.Listener
	}
	r.NoError(ev.Ack())
	// TimewaitExit is dropped: no case depends on it.
	if kept.typ != cm.TimewaitExit {
		r.events = append(r.events, kept)
	}
	return true
}

// await waits for the next event of an id. The event must be of the given type.
func (r *rig) await(owner *cm.ID, typ cm.EventType) event {
	r.t.Helper()
	mine := func(ev event) bool { return ev.owner == owner }
	r.until(fmt.Sprint("event ", typ), func() bool { return slices.ContainsFunc(r.events, mine) })
	i := slices.IndexFunc(r.events, mine)
	ev := r.events[i]
	r.events = slices.Delete(r.events, i, i+1)
	r.Equal(typ, ev.typ, "event %v (status %d, %v) instead of %v", ev.typ, ev.status, ev.err, typ)
	return ev
}
