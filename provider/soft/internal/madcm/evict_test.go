//go:build linux

package madcm

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A connection becomes stale while the job that evicts it is queued. The application
// gets Disconnected, and can call Close or Disconnect.
func TestWireCMEvictsStale(t *testing.T) {
	for name, end := range map[string]func(*cm.ID) error{
		"close":      func(id *cm.ID) error { return errors.Join(id.CloseQP(), id.Close()) },
		"disconnect": (*cm.ID).Disconnect,
	} {
		t.Run(name, func(t *testing.T) {
			s := newMADPeer(t, func(c *Config) { c.MaxHalfOpen, c.MaxHalfOpenPerAddress = 1, 1 })
			l := s.listen(cm.TCP, 0)
			passive := s.requestFrom(l, 0)
			s.accept(passive, nil)

			// The peer uses the queue pair of the first connection in another request.
			forgotten := s.numberedREQ(l, 0)
			forgotten.LocalID++
			var m wire.MAD
			forgotten.Encode(&m, 1)
			s.inject(&m, clientAddr, serverAddr)
			s.reqFrom(otherAddr, l.LocalAddr().Port()).Encode(&m, 2)
			s.inject(&m, otherAddr, serverAddr)
			// The request of the other address is admitted first, and evicts the connection. But
			// the connection ends with ErrStale before the job of the eviction runs.
			s.settle()
			s.settle()
			s.server.Request(l)

			ev := s.server.Want(cm.Disconnected, passive)
			require.ErrorIs(t, ev.Err, cm.ErrStale)
			require.NoError(t, end(passive))
			require.Zero(t, s.listenerOf(l).halfOpen.evicting)
		})
	}
}
