//go:build linux

package udpath

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
)

// peers maps the names of roles to the functions of the peer processes.
var peers = map[string]peerproc.Role{
	"datagram-sink":      peerDatagramSink,
	"datagram-source":    peerDatagramSource,
	"datagram-senders":   peerDatagramSenders,
	"datagram-full":      peerDatagramNoDescriptors,
	"datagram-dest-full": peerDatagramDestNoDescriptors,
}

// TestPeer is the entry point of a peer process. In the test process it does
// nothing.
func TestPeer(t *testing.T) { peerproc.Main(t, peers) }
