package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

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
