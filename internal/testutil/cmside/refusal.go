//go:build linux

package cmside

import (
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// WantRejected waits for a Rejected event with the given reason and private data.
func (s *Side) WantRejected(id *cm.ID, reason cm.RejectReason, byApplication bool, private []byte) {
	s.T.Helper()
	ev := s.Want(cm.Rejected, id)
	require.EqualValues(s.T, reason, ev.Status)
	var refused *cm.RejectError
	require.ErrorAs(s.T, ev.Err, &refused)
	require.ErrorIs(s.T, ev.Err, cm.ErrRefused)
	require.Equal(s.T, reason, refused.Reason)
	require.Equal(s.T, byApplication, refused.ByApplication)
	require.Equal(s.T, string(private), string(refused.PrivateData))
	if id.QP() != nil {
		require.Equal(s.T, verbs.StateError, id.QP().State(), "a refused queue pair is flushed")
	}
}

// WantUnreachable waits for an Unreachable event with the given status and private data.
// The event means that the peer has refused a lookup.
func (s *Side) WantUnreachable(id *cm.ID, status cm.SIDRStatus, byApplication bool, private []byte) {
	s.T.Helper()
	ev := s.Want(cm.Unreachable, id)
	require.EqualValues(s.T, status, ev.Status)
	var refused *cm.RejectError
	require.ErrorAs(s.T, ev.Err, &refused)
	require.Equal(s.T, status, refused.SIDR)
	require.Equal(s.T, byApplication, refused.ByApplication)
	require.Equal(s.T, string(private), string(refused.PrivateData))
	if id.QP() != nil {
		require.Equal(s.T, verbs.StateRTS, id.QP().State(), "a refused lookup does not change the queue pair")
	}
}

// WantRefusal waits until the peer's application refuses the request. The event is
// Rejected in the TCP port space and Unreachable in the UDP port space.
func (s *Side) WantRefusal(id *cm.ID, byApplication bool, private []byte) {
	s.T.Helper()
	if id.PortSpace() == cm.UDP {
		s.WantUnreachable(id, cm.SIDRReject, byApplication, private)
	} else {
		s.WantRejected(id, cm.RejectConsumer, byApplication, private)
	}
}

// WantNoResources waits until the peer refuses the request for lack of resources. The
// event is Rejected in the TCP port space and Unreachable in the UDP port space.
func (s *Side) WantNoResources(id *cm.ID) {
	s.T.Helper()
	if id.PortSpace() == cm.UDP {
		s.WantUnreachable(id, cm.SIDRNoQP, false, nil)
	} else {
		s.WantRejected(id, cm.RejectNoResources, false, nil)
	}
}
