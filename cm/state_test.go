package cm_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// legalSteps lists the calls and events that the manual pages allow in each state. The
// step "accept/tcp=accepted" is only for the TCP port space and leads to StateAccepted.
var legalSteps = map[cm.State]string{
	cm.StateIdle: `bind=bound, resolve address=resolving address, migrate, set TOS,
		set REUSEADDR, clear REUSEADDR, set AFONLY, set ACK_TIMEOUT, set MIN_RNR_TIMER`,
	cm.StateBound: `listen=listening, resolve address=resolving address, create QP, init QP, ready QP/udp,
		migrate, set TOS, set REUSEADDR, set AFONLY, set ACK_TIMEOUT, set MIN_RNR_TIMER`,
	cm.StateListening: `migrate, connect request`,
	cm.StateResolvingAddr: `migrate, set TOS, set REUSEADDR, set ACK_TIMEOUT, set MIN_RNR_TIMER,
		address resolved=address resolved, address error=bound`,
	cm.StateAddrResolved: `resolve route=resolving route, create QP, init QP, ready QP/udp,
		migrate, set TOS, set REUSEADDR, set ACK_TIMEOUT, set MIN_RNR_TIMER`,
	cm.StateResolvingRoute: `create QP, init QP, ready QP/udp, migrate, set REUSEADDR, set ACK_TIMEOUT, set MIN_RNR_TIMER,
		route resolved=route resolved, route error=address resolved`,
	cm.StateRouteResolved: `create QP, init QP, ready QP/udp, connect=connecting, migrate, set REUSEADDR, set ACK_TIMEOUT, set MIN_RNR_TIMER`,
	cm.StateConnecting: `init QP, ready QP/udp, disconnect, migrate, set REUSEADDR, established=established,
		connect response/tcp=responded, rejected/tcp=failed, unreachable=failed, connect error=failed, address error/udp=failed`,
	cm.StateResponded: `init QP, ready QP, establish=established, reject=failed, disconnect, migrate, set REUSEADDR,
		rejected=failed, unreachable=failed, connect error=failed, disconnected=disconnected`,
	cm.StateRequested: `create QP, init QP, ready QP, accept/tcp=accepted, accept/udp=established, reject=failed,
		migrate, set REUSEADDR, set ACK_TIMEOUT, set MIN_RNR_TIMER, unreachable=failed`,
	cm.StateAccepted: `init QP, ready QP, notify, disconnect=disconnect pending, migrate, set REUSEADDR, established=established,
		rejected=failed, unreachable=failed, connect error=failed, disconnected=disconnected`,
	cm.StateDisconnectPending: `disconnect, migrate, set REUSEADDR, established=disconnecting,
		rejected=failed, unreachable=failed, connect error=failed, disconnected=disconnected`,
	cm.StateEstablished: `init QP, ready QP, disconnect/tcp=disconnecting, disconnect/udp=disconnected, migrate,
		set REUSEADDR, disconnected/tcp=disconnected, unreachable`,
	cm.StateDisconnecting: `disconnect, migrate, set REUSEADDR, disconnected=disconnected`,
	cm.StateDisconnected:  `disconnect, migrate, set REUSEADDR, timewait exit/tcp`,
	cm.StateFailed:        `disconnect, migrate, set REUSEADDR, timewait exit/tcp`,
	cm.StateClosed:        ``,
}

// allowed returns the state after a call or event, and whether legalSteps allows it.
func allowed(state cm.State, ps cm.PortSpace, what string) (to string, ok bool) {
	for entry := range strings.SplitSeq(legalSteps[state], ",") {
		name, target, _ := strings.Cut(strings.TrimSpace(entry), "=")
		name, only, _ := strings.Cut(name, "/")
		if name != what || only != "" && only != ps.String() {
			continue
		}
		if target == "" {
			target = state.String()
		}
		return target, true
	}
	return state.String(), false
}

// callFuncs has a function for each call, with valid arguments.
var callFuncs = map[string]func(p *peer) error{
	"bind":              func(p *peer) error { return p.id.Bind(local) },
	"listen":            func(p *peer) error { return p.id.Listen(1) },
	"resolve address":   func(p *peer) error { return p.id.ResolveAddr(netip.AddrPort{}, remote, time.Second) },
	"resolve route":     func(p *peer) error { return p.id.ResolveRoute(time.Second) },
	"create QP":         func(p *peer) error { return p.id.CreateQP(thePD, qpAttr(p.ps)) },
	"init QP":           func(p *peer) error { _, _, err := p.id.InitQPAttr(verbs.StateInit); return err },
	"ready QP":          func(p *peer) error { _, _, err := p.id.InitQPAttr(verbs.StateRTS); return err },
	"connect":           func(p *peer) error { return p.id.Connect(&cm.ConnParam{QPNum: 7}) },
	"accept":            func(p *peer) error { return p.id.Accept(&cm.ConnParam{QPNum: 7}) },
	"reject":            func(p *peer) error { return p.id.Reject(nil) },
	"establish":         func(p *peer) error { return p.id.Establish() },
	"notify":            func(p *peer) error { return p.id.Notify(verbs.AsyncCommEst) },
	"disconnect":        func(p *peer) error { return p.id.Disconnect(nil) },
	"migrate":           func(p *peer) error { return p.id.Migrate(p.channel) },
	"set TOS":           func(p *peer) error { return p.id.SetTOS(1) },
	"set REUSEADDR":     func(p *peer) error { return p.id.SetReuseAddr(true) },
	"clear REUSEADDR":   func(p *peer) error { return p.id.SetReuseAddr(false) },
	"set AFONLY":        func(p *peer) error { return p.id.SetAFOnly(true) },
	"set ACK_TIMEOUT":   func(p *peer) error { return p.id.SetAckTimeout(14) },
	"set MIN_RNR_TIMER": func(p *peer) error { return p.id.SetMinRNRTimer(14) },
}

// reach returns a new ID in the given state.
func reach(t testing.TB, ps cm.PortSpace, state cm.State) *peer {
	t.Helper()
	p := bringTo(t, ps, state)
	require.Equal(t, state, p.id.State())
	p.fake.calls = nil
	return p
}

func bringTo(t testing.TB, ps cm.PortSpace, state cm.State) *peer {
	switch state {
	case cm.StateListening:
		return listening(t, ps)
	case cm.StateRequested:
		return requested(t, ps, cm.MessageParam{})
	case cm.StateRouteResolved:
		return routed(t, ps)
	case cm.StateIdle:
		return newPeer(t, ps)
	}
	return stepInto(t, ps, state)
}

// stepInto returns a new ID in the given state, by way of the state before it.
func stepInto(t testing.TB, ps cm.PortSpace, state cm.State) *peer {
	last := map[cm.State]struct {
		from cm.State
		call string
		ev   cm.EventType
	}{
		cm.StateBound:             {cm.StateIdle, "bind", 0},
		cm.StateResolvingAddr:     {cm.StateIdle, "resolve address", 0},
		cm.StateAddrResolved:      {cm.StateResolvingAddr, "", cm.AddrResolved},
		cm.StateResolvingRoute:    {cm.StateAddrResolved, "resolve route", 0},
		cm.StateConnecting:        {cm.StateRouteResolved, "connect", 0},
		cm.StateResponded:         {cm.StateConnecting, "", cm.ConnectResponse},
		cm.StateAccepted:          {cm.StateRequested, "accept", 0},
		cm.StateEstablished:       {cm.StateConnecting, "", cm.Established},
		cm.StateDisconnectPending: {cm.StateAccepted, "disconnect", 0},
		cm.StateDisconnecting:     {cm.StateEstablished, "disconnect", 0},
		cm.StateDisconnected:      {cm.StateEstablished, "", cm.Disconnected},
		cm.StateFailed:            {cm.StateConnecting, "", cm.Unreachable},
	}[state]
	if state == cm.StateClosed {
		p := newPeer(t, ps)
		require.NoError(t, p.id.Close())
		return p
	}
	if state == cm.StateDisconnected && ps == cm.UDP {
		last.call = "disconnect"
	}
	p := bringTo(t, ps, last.from)
	if last.call == "" {
		p.deliver(last.ev)
		return p
	}
	require.NoError(t, callFuncs[last.call](p))
	return p
}

// states returns the states that are possible in the port space.
func states(ps cm.PortSpace) []cm.State {
	var list []cm.State
	for s := cm.StateIdle; s <= cm.StateClosed; s++ {
		tcpOnly := s == cm.StateResponded || s == cm.StateAccepted || s == cm.StateDisconnectPending || s == cm.StateDisconnecting
		if ps == cm.TCP || !tcpOnly {
			list = append(list, s)
		}
	}
	return list
}

func everyState(t *testing.T, f func(t *testing.T, ps cm.PortSpace, state cm.State)) {
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		for _, state := range states(ps) {
			t.Run(fmt.Sprintf("%v/%v", ps, state), func(t *testing.T) { f(t, ps, state) })
		}
	}
}

// onlyTCP reports whether the call sets an option of the TCP port space.
func onlyTCP(name string) bool { return name == "set ACK_TIMEOUT" || name == "set MIN_RNR_TIMER" }

// TestCalls makes every call in every state, and compares the result with legalSteps.
func TestCalls(t *testing.T) {
	everyState(t, func(t *testing.T, ps cm.PortSpace, state cm.State) {
		for name, call := range callFuncs {
			p := reach(t, ps, state)
			err := call(p)
			to, ok := allowed(state, ps, name)
			if ps == cm.UDP && onlyTCP(name) && ok {
				require.ErrorIs(t, err, verbs.ErrNotSupported)
				continue
			}
			require.Equal(t, to, p.id.State().String(), name)
			if ok {
				require.NoError(t, err, name)
				continue
			}
			require.Empty(t, p.fake.calls, "%s must not reach the transport", name)
			if state == cm.StateClosed {
				require.ErrorIs(t, err, verbs.ErrClosed, name)
				continue
			}
			require.ErrorIs(t, err, verbs.ErrState, name)
			require.ErrorContains(t, err, "wrong state: the ID is "+state.String(), name)
		}
	})
}

// TestEvents delivers every event in every state, and compares the result with
// legalSteps.
func TestEvents(t *testing.T) {
	everyState(t, func(t *testing.T, ps cm.PortSpace, state cm.State) {
		for typ := range cm.EventType(20) {
			p := reach(t, ps, state)
			raw := cm.TransportEvent{Type: typ, ID: p.fake}
			if typ == cm.ConnectRequest {
				raw.Listener, raw.ID = p.fake, p.transportChannel.newID()
			}
			p.transportChannel.push(raw)
			to, ok := allowed(state, ps, typ.String())
			if state != cm.StateClosed {
				switch typ {
				case cm.DeviceRemoval:
					to, ok = cm.StateFailed.String(), true
				case cm.AddrChange:
					ok = true
				}
			}
			if ok {
				require.Equal(t, typ, p.next().Type)
			}
			p.requireNoEvent()
			require.Equal(t, to, p.id.State().String(), typ)
		}
	})
}

// TestQueuePairRules checks the calls that are only allowed without a queue pair.
func TestQueuePairRules(t *testing.T) {
	for state, names := range map[cm.State][]string{
		cm.StateBound:         {"listen", "create QP", "init QP"},
		cm.StateRouteResolved: {"create QP", "init QP"},
		cm.StateRequested:     {"create QP", "init QP", "ready QP"},
	} {
		for _, name := range names {
			p := reach(t, cm.TCP, state)
			p.createQP()
			p.fake.calls = nil
			err := callFuncs[name](p)
			require.ErrorIs(t, err, verbs.ErrState, name)
			require.ErrorContains(t, err, "the ID has a queue pair")
			require.Empty(t, p.fake.calls)
			require.Equal(t, state, p.id.State())
		}
	}
}

// TestEstablishWithQP checks that Establish is refused if the ID has a queue pair.
func TestEstablishWithQP(t *testing.T) {
	p := routed(t, cm.TCP)
	p.createQP()
	require.NoError(t, p.id.Connect(nil))
	p.deliver(cm.ConnectResponse)
	require.ErrorIs(t, p.id.Establish(), verbs.ErrState)
	require.Equal(t, cm.StateResponded, p.id.State())
}

// TestTransportRefuses checks that a failed call changes nothing. Only Accept leads to
// StateFailed.
func TestTransportRefuses(t *testing.T) {
	everyState(t, func(t *testing.T, ps cm.PortSpace, state cm.State) {
		for name, call := range callFuncs {
			if _, ok := allowed(state, ps, name); !ok || name == "migrate" || ps == cm.UDP && onlyTCP(name) {
				continue
			}
			p := reach(t, ps, state)
			p.fake.fail = cm.ErrAddrInUse
			require.ErrorIs(t, call(p), cm.ErrAddrInUse, name)
			if name == "accept" {
				require.Equal(t, cm.StateFailed, p.id.State())
				require.ErrorIs(t, call(p), verbs.ErrState)
				continue
			}
			require.Equal(t, state, p.id.State(), name)
			p.fake.fail = nil
			require.NoError(t, call(p), name)
		}
	})
}

func TestStateNames(t *testing.T) {
	var seen []string
	for s := cm.StateIdle; s <= cm.StateClosed; s++ {
		require.NotContains(t, seen, s.String())
		seen = append(seen, s.String())
	}
	require.False(t, slices.Contains(seen, ""))
	require.Equal(t, "state 99", cm.State(99).String())
}
