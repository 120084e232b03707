package providertest

import (
	"fmt"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
)

// An event is a copy of a cm.Event. The rig has already acknowledged the cm.Event.
type event struct {
	typ cm.EventType
	id  *cm.ID
	// the listener of a connection request, or else id
	owner  *cm.ID
	status int
	err    error
	param  cm.MessageParam
	ud     cm.UDParam
}

// nextEvent fetches one event and stores it in the rig. It returns false if there is
// none.
func (r *rig) nextEvent() bool {
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
	// No case needs TimewaitExit.
	if kept.typ != cm.TimewaitExit {
		r.events = append(r.events, kept)
	}
	return true
}

// await waits for the next event of an ID. The event must have the given type.
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
