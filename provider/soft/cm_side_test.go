//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const safety = cmside.Safety

// A party is one side of a connection, with a device of its own.
type party struct {
	*cmside.Side
	p *Provider
}

func newParty(t *testing.T) *party {
	t.Helper()
	return openParty(t, &Config{})
}

func openParty(t *testing.T, cfg *Config) *party {
	t.Helper()
	leak.Watch(t)
	p, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, p.Close())
		}
	})
	return &party{Side: cmside.Open(t, p, p.dev), p: p}
}

// awaitCount waits until the named counter is at least the given value. An event on the
// party's channel fails the test.
func (s *party) awaitCount(name string, value uint64) {
	s.T.Helper()
	for countsOf(s.T, s.p.dev)[name] < value {
		cmside.AwaitReadable(s.T, s.Channel.FD())
		s.Quiet()
	}
}

// connected connects a client to a new listener of a server. Both sides have queue
// pairs.
func connected(t *testing.T, client, server *party) (active, passive *cm.ID) {
	t.Helper()
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	return connectTo(client, server, l)
}

func connectTo(client, server *party, l *cm.ID) (active, passive *cm.ID) {
	client.T.Helper()
	return cmside.Connect(client.Side, server.Side, l)
}

// deviceOf returns the device of a queue pair.
func deviceOf(q verbs.QP) *device { return q.PD().Device().(*device) }

func openDevice(t testing.TB, cfg *Config) *device {
	p, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p.dev
}

func localConfig() *Config { return &Config{Path: PathLocal} }
