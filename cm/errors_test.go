package cm_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// failureEvent brings a new ID into a state, delivers a failure, and returns its event.
func failureEvent(t *testing.T, ps cm.PortSpace, state cm.State, raw cm.TransportEvent) *cm.Event {
	t.Helper()
	p := reach(t, ps, state)
	raw.ID = p.fake
	p.transportChannel.push(raw)
	return p.next()
}

// TestRejected checks the errors of refused connections.
func TestRejected(t *testing.T) {
	for _, tt := range []struct {
		status int
		app    bool
		reason cm.RejectReason
		text   string
	}{
		{28, true, cm.RejectConsumer, `connection refused by the application: "busy"`},
		{28, false, cm.RejectConsumer, "connection refused: refused by the consumer"},
		{8, false, cm.RejectInvalidServiceID, "connection refused: no listener"},
		{10, false, cm.RejectStale, "connection refused: stale connection"},
		{34, false, 34, "connection refused: reject reason 34"},
		{-111, false, 0, "connection refused: reject reason 0"},
		{1 << 16, false, 0, "connection refused: reject reason 0"},
	} {
		data := []byte("busy")
		ev := failureEvent(t, cm.TCP, cm.StateConnecting, cm.TransportEvent{
			Type: cm.Rejected, Status: tt.status, ByApplication: tt.app, PrivateData: data,
		})
		copy(data, "....")
		require.Equal(t, tt.status, ev.Status)
		err := ev.Err
		require.Equal(t, []byte("busy"), ev.Param.PrivateData)
		require.NoError(t, ev.Ack())

		var rejected *cm.RejectError
		require.ErrorAs(t, err, &rejected)
		require.ErrorIs(t, err, cm.ErrRefused)
		require.NotErrorIs(t, err, cm.ErrTimedOut)
		require.Equal(t, tt.reason, rejected.Reason)
		require.Equal(t, tt.app, rejected.ByApplication)
		require.Equal(t, []byte("busy"), rejected.PrivateData, "the error stays valid after Ack")
		require.EqualError(t, err, tt.text)
	}
}

// TestUnreachableRefused checks that ECONNREFUSED matches ErrRefused.
func TestUnreachableRefused(t *testing.T) {
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		ev := failureEvent(t, ps, cm.StateConnecting, cm.TransportEvent{
			Type: cm.Unreachable, Status: -111, Err: syscall.ECONNREFUSED,
		})
		require.ErrorIs(t, ev.Err, cm.ErrRefused)
		require.ErrorIs(t, ev.Err, syscall.ECONNREFUSED)
		require.NotErrorIs(t, ev.Err, cm.ErrTimedOut)
		require.EqualError(t, ev.Err, "unreachable: connection refused")
		require.NoError(t, ev.Ack())
	}
}

// TestUnreachableHost checks that no route to the peer is no refusal.
func TestUnreachableHost(t *testing.T) {
	ev := failureEvent(t, cm.TCP, cm.StateConnecting, cm.TransportEvent{
		Type: cm.Unreachable, Status: -113, Err: syscall.EHOSTUNREACH,
	})
	require.NotErrorIs(t, ev.Err, cm.ErrRefused)
	require.ErrorIs(t, ev.Err, syscall.EHOSTUNREACH)
	require.NoError(t, ev.Ack())
}

// TestUnreachableTimedOut checks that a timeout is no refusal, even if the transport has an
// error for it.
func TestUnreachableTimedOut(t *testing.T) {
	ev := failureEvent(t, cm.TCP, cm.StateConnecting, cm.TransportEvent{
		Type: cm.Unreachable, Status: -110, Err: cm.ErrTimedOut,
	})
	require.ErrorIs(t, ev.Err, cm.ErrTimedOut)
	require.NotErrorIs(t, ev.Err, cm.ErrRefused)
	require.NoError(t, ev.Ack())
}

// TestUnreachable checks the errors of peers that do not answer, and of refused lookups.
func TestUnreachable(t *testing.T) {
	const silent = "timed out: the peer does not answer"
	for _, tt := range []struct {
		ps     cm.PortSpace
		status int
		app    bool
		sidr   cm.SIDRStatus
		text   string
	}{
		{cm.TCP, -110, false, cm.SIDROK, silent},
		{cm.TCP, 2, true, cm.SIDROK, silent},
		{cm.UDP, -110, false, cm.SIDROK, silent},
		{cm.UDP, 1, false, cm.SIDRUnsupported, "datagram lookup refused: no listener"},
		{cm.UDP, 2, false, cm.SIDRReject, "datagram lookup refused: refused by the consumer"},
		{cm.UDP, 2, true, cm.SIDRReject, `datagram lookup refused by the application: "why"`},
		{cm.UDP, 3, false, cm.SIDRNoQP, "datagram lookup refused: no queue pair"},
		{cm.UDP, 200, false, 200, "datagram lookup refused: lookup status 200"},
	} {
		ev := failureEvent(t, tt.ps, cm.StateConnecting, cm.TransportEvent{
			Type: cm.Unreachable, Status: tt.status, ByApplication: tt.app, PrivateData: []byte("why"),
		})
		require.EqualError(t, ev.Err, tt.text)
		refused := tt.sidr != cm.SIDROK
		require.Equal(t, refused, errors.Is(ev.Err, cm.ErrRefused))
		require.Equal(t, !refused, errors.Is(ev.Err, cm.ErrTimedOut))
		require.Equal(t, tt.sidr == cm.SIDRNoQP, errors.Is(ev.Err, verbs.ErrNoResources))
		if refused {
			want := &cm.RejectError{SIDR: tt.sidr, PrivateData: []byte("why"), ByApplication: tt.app}
			require.Equal(t, want, ev.Err)
		}
	}
}

// TestCause checks that the transport's error is used instead of the status.
func TestCause(t *testing.T) {
	ev := failureEvent(t, cm.TCP, cm.StateResolvingAddr, cm.TransportEvent{Type: cm.AddrError, Status: -19, Err: cm.ErrNoRoute})
	require.ErrorIs(t, ev.Err, cm.ErrNoRoute)
	require.Equal(t, -19, ev.Status)

	ev = failureEvent(t, cm.TCP, cm.StateResolvingAddr, cm.TransportEvent{Type: cm.AddrError, Status: -110})
	require.ErrorIs(t, ev.Err, cm.ErrTimedOut)
	require.EqualError(t, ev.Err, "address error: timed out")

	ev = failureEvent(t, cm.TCP, cm.StateResolvingRoute, cm.TransportEvent{Type: cm.RouteError, Status: -19})
	require.NotErrorIs(t, ev.Err, cm.ErrTimedOut)
	require.EqualError(t, ev.Err, "route error: status -19")

	ev = failureEvent(t, cm.TCP, cm.StateConnecting, cm.TransportEvent{Type: cm.ConnectError})
	require.EqualError(t, ev.Err, "connect error: status 0", "a failure has a cause, even without a number")

	ev = failureEvent(t, cm.TCP, cm.StateEstablished, cm.TransportEvent{Type: cm.Disconnected})
	require.NoError(t, ev.Err)
}

// TestRejectText checks that the text of a refusal has no padding, and that PrivateData keeps it.
func TestRejectText(t *testing.T) {
	for data, want := range map[string]string{
		"": "", "full": "full", "full\x00\x00": "full", "\x00\x01\x00": "\x00\x01", "\x00": "",
	} {
		e := &cm.RejectError{PrivateData: []byte(data), ByApplication: true}
		require.Equal(t, want, e.Text())
		require.Equal(t, data, string(e.PrivateData))
	}
}

func TestReasonNames(t *testing.T) {
	for r := range cm.RejectReason(40) {
		require.NotEmpty(t, r.String())
	}
	for s := cm.SIDROK; s <= cm.SIDRVersion; s++ {
		require.NotContains(t, s.String(), "status")
	}
}
