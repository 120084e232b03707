package cm_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sortedCalls has the names of all calls.
var sortedCalls = func() []string {
	var list []string
	for name := range callFuncs {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}()

// FuzzStates runs a script of calls and events. Even bytes are calls, odd bytes are
// events. A step that the state does not allow must have no effect.
func FuzzStates(f *testing.F) {
	f.Add(true, []byte{0, 1, 2, 3})
	f.Add(true, fuzzScript("resolve address", cm.AddrResolved, "resolve route", cm.RouteResolved, "create QP", "connect", cm.Established, "disconnect", cm.Disconnected, cm.TimewaitExit))
	f.Add(true, fuzzScript("resolve address", cm.AddrError, "resolve address", cm.AddrResolved, "resolve route", cm.RouteError, "resolve route"))
	f.Add(true, fuzzScript("bind", "listen", cm.ConnectRequest, "accept", cm.ConnectRequest))
	f.Add(true, fuzzScript("resolve address", cm.AddrResolved, "resolve route", cm.RouteResolved, "connect", cm.ConnectResponse, "establish", cm.DeviceRemoval))
	f.Add(false, fuzzScript("resolve address", cm.AddrResolved, "resolve route", cm.RouteResolved, "connect", cm.Unreachable))
	f.Add(false, fuzzScript("resolve address", cm.AddrResolved, "resolve route", cm.RouteResolved, "connect", cm.Established, "disconnect"))

	f.Fuzz(func(t *testing.T, tcp bool, script []byte) {
		ps := cm.UDP
		if tcp {
			ps = cm.TCP
		}
		p := newPeer(t, ps)
		for _, b := range script {
			if b%2 == 0 {
				p.fuzzCall(sortedCalls[int(b/2)%len(sortedCalls)])
			} else {
				p.fuzzEvent(cm.EventType(b / 2 % 20))
			}
		}
		require.NoError(t, p.id.CloseQP())
		require.NoError(t, p.id.Close())
		require.NoError(t, p.channel.Close())
	})
}

// fuzzScript returns the script for some names of calls and types of events.
func fuzzScript(steps ...any) []byte {
	var script []byte
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			script = append(script, byte(2*slices.Index(sortedCalls, s)))
		case cm.EventType:
			script = append(script, byte(2*s+1))
		}
	}
	return script
}

func (p *peer) fuzzCall(name string) {
	before, reached := p.id.State(), len(p.fake.calls)
	err := callFuncs[name](p)
	to, ok := allowed(before, p.ps, name)
	if err != nil {
		require.Equal(p.t, before, p.id.State(), name)
		require.Len(p.t, p.fake.calls, reached, "%s failed but reached the transport", name)
		return
	}
	require.True(p.t, ok, "%s in state %v", name, before)
	require.Equal(p.t, to, p.id.State().String(), name)
}

func (p *peer) fuzzEvent(typ cm.EventType) {
	raw := cm.TransportEvent{Type: typ, ID: p.fake, Status: int(typ), PrivateData: []byte{1}}
	if typ == cm.ConnectRequest {
		raw.ID, raw.Listener = p.transportChannel.newID(), p.fake
	}
	before := p.id.State()
	p.transportChannel.push(raw)
	ev, ok, err := p.channel.Next()
	require.NoError(p.t, err)
	if !ok {
		require.Equal(p.t, before, p.id.State(), typ)
		return
	}
	require.ErrorContains(p.t, p.id.Close(), "still in use")
	if child := ev.ID; child != p.id {
		require.NoError(p.t, child.Accept(&cm.ConnParam{QPNum: 7}))
		require.NoError(p.t, child.Close())
	}
	require.NoError(p.t, ev.Ack())
	require.ErrorIs(p.t, ev.Ack(), verbs.ErrState)
}
